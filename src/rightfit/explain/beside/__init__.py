"""Questions beside a wish ("微调LLaMA-2-13B要不要NVLink", "is 32 GB of RAM enough?", "vLLM还是
TensorRT-LLM"): taken out of the sentence, and answered from the plan of the rest.

`questions` takes them out; `settled` is what a face asks for: the wish to plan, and what is told
with its plan. `hardware_answers` and `cost_answers` have an answer for each, `choices` plans the
ways between which a sentence asks, `compared` holds them against each other, `able` says whether
it can be done, and `also_named` tells of what was named and leads no row.

Words are data (data/beside.toml). A sentence that is all question is left as it is.
"""
