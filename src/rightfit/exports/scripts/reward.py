"""What an answer is worth. Change it for your own data: each function of REWARDS gets the answers and, by its name, every column of the data, and
gives a figure for each answer.
"""

import re

NUMBER = re.compile(r"-?\d[\d,]*(?:\.\d+)?")


def words(completion):
    """The text of an answer, which is a conversation where the prompt is one."""
    return completion if isinstance(completion, str) else completion[-1]["content"]


def last_number(text):
    """The last number of a text, None without one: of GSM8K's form "... #### 72" that is the result."""
    found = NUMBER.findall(text)
    return float(found[-1].replace(",", "")) if found else None


def right_number(completions, answer=None, **_):
    """1 where an answer ends in the number of the column "answer", else 0."""
    if answer is None:
        raise SystemExit('the data have no column "answer": say in reward.py what an answer is worth')
    wanted = [last_number(str(text)) for text in answer]
    return [
        float(number is not None and last_number(words(completion)) == number)
        for completion, number in zip(completions, wanted, strict=True)
    ]


REWARDS = [right_number]
