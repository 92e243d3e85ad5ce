"""What is wrong with a fleet, in Chinese."""

from __future__ import annotations

import re
from typing import Any

import pytest

from rightfit.errors import RightfitError
from rightfit.explain.messages import problems_of
from rightfit.fleets.reading import read_fleet

ENGLISH = re.compile(r"\b(the|not|is|are|such|write|give|stands|must|should|cannot|needs?|input|given|unable|unknown|or)\b")
JOB: dict[str, Any] = {"name": "a", "workload": {"model": "7B"}}


@pytest.mark.parametrize(
    ("fleet", "words"),
    [
        ({}, "没有任务也没有服务"),
        ({"jobs": [{**JOB, "cuont": 3}]}, "没有键 jobs[1].cuont，是否指 count？"),
        ({"jobs": [{**JOB, "count": -2}]}, "jobs[1].count：不得小于 1（给出的是：-2）"),
        ({"jobs": [{**JOB, "count": "many"}]}, "须为整数（给出的是：many）"),
        ({"jobs": [{**JOB, "priority": 1.5}]}, "须为整数"),
        ({"jobs": [{**JOB, "interruptible": "maybe"}]}, "须为 true 或 false"),
        ({"jobs": [{**JOB, "name": ""}]}, "至少 1 个字符"),
        ({"jobs": [{**JOB, "team": [1]}]}, "须为文本"),
        ({"jobs": [{"name": "a", "workload": 3}]}, "须为映射"),
        ({"jobs": "x"}, "须为列表"),
        ({"jobs": [JOB], "owned": [{"kind": "x", "gpu": "8xH100"}]}, "'block' 或 'savings-plan'"),
        ({"jobs": [JOB], "owned": [{"server": "p5"}]}, "请写成 PROVIDER/INSTANCE"),
        ({"jobs": [JOB], "owned": [{"gpu": "8xH1000"}]}, "没有名为“H1000”的加速卡"),
        ({"jobs": [JOB], "horizon": "9y"}, "不在 0 与三年之间"),
        ({"jobs": [JOB], "limits": {"budget": "many"}}, "其中没有数字"),
        ({"services": [{**JOB, "demand": "fast"}]}, "中没有数字"),
        ({"services": [{**JOB, "demand": "10/s nights"}]}, "没有名为“nights”的负载曲线"),
        ({"services": [{**JOB, "demand": "1,2,x"}]}, "不是数字"),
        ({"jobs": [{"name": "a"}]}, "缺少 jobs[1].workload"),
        ({"jobs": [JOB, JOB]}, "出现两次"),
        ({"jobs": [{**JOB, "earliest": "3d", "deadline": "2d"}]}, "截止时间 2d 不晚于最早开始 3d"),
        ({"jobs": [{**JOB, "deadline": "soon"}]}, "jobs[1] (a).deadline"),
        ({"jobs": [{**JOB, "deadline": "2999-01-01"}]}, "超过三年"),
        ({"jobs": [JOB], "start": "soon"}, "不是日期"),
        ({"jobs": [{"name": "a", "workload": {"modell": "7B"}}]}, "没有选项 'modell'，是否指"),
        ({"jobs": [{"name": "a", "workload": {"model": "7B", "deadline": "2d"}}]}, "写在它旁边"),
        ({"services": [JOB]}, "缺少 demand"),
        ({"services": [{**JOB, "demand": [1, 2]}]}, "有 2 个数"),
        ({"jobs": [JOB], "owned": [{"kind": "savings-plan"}]}, "节省计划"),
        ({"jobs": [JOB], "owned": [{}]}, "写一个"),
        ({"jobs": [JOB], "limits": {"budget": "0usd"}}, "不大于 0"),
        ({"jobs": [JOB], "limits": {"spot_share": 2}}, "不得大于 1"),
        ({"jobs": [{**JOB, "team": "x"}], "teams": ["nlp"]}, "没有名为“x”的"),
    ],
)
def test_bad_fleets_are_refused_in_chinese(fleet: dict[str, Any], words: str) -> None:
    with pytest.raises(RightfitError) as caught:
        read_fleet(fleet)
    told = problems_of(caught.value, "zh")
    assert words in told[0].message, told[0].message
    assert not ENGLISH.search(told[0].message), told[0].message
    assert str(caught.value) != told[0].message
