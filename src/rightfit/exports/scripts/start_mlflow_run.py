"""Make an MLflow run that carries a rightfit plan. Usage: eval "$(python start_mlflow_run.py plan.json)"

The server is the one of MLFLOW_TRACKING_URI. What is printed sets MLFLOW_RUN_ID, which Transformers' and Lightning's loggers go on with.
"""

import json
import shlex
import sys
from pathlib import Path

import mlflow

LONGEST_TAG = 5000
LONGEST_PARAMETER = 500

plan = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))
mlflow.set_experiment(plan["experiment"])
with mlflow.start_run(run_name=plan["run"]) as run:
    mlflow.set_tags({name: str(value)[:LONGEST_TAG] for name, value in plan["tags"].items()})
    mlflow.log_params({name: str(value)[:LONGEST_PARAMETER] for name, value in plan["params"].items()})
    mlflow.log_metrics(plan["metrics"])
print(f"export MLFLOW_RUN_ID={shlex.quote(run.info.run_id)}")
