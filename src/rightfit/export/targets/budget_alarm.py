"""An alarm on the cloud's own budget service: at the plan's cost, and when the forecast passes the most that the plan holds possible."""

from __future__ import annotations

import math
from typing import Any

from rightfit.export.job import Job
from rightfit.export.operations import most_usd
from rightfit.export.quoting import shell, shell_lines, to_json
from rightfit.export.registry import Files, Target
from rightfit.messages import Message

CLOUDS = ("aws", "azure", "gcp")
MOST_PERCENT = 100


def planned_usd(job: Job) -> float:
    """What the plan says that it costs: a month of a service, the whole of a run."""
    cost = job.option.cost
    return (cost.monthly_usd if job.is_service else cost.total_usd) or 0.0


def limit_usd(job: Job) -> int:
    """The budget, in whole dollars."""
    return max(1, math.ceil(max(most_usd(job), planned_usd(job))))


def planned_percent(job: Job) -> int:
    """The plan's cost as a share of the budget."""
    return max(1, min(MOST_PERCENT, math.ceil(planned_usd(job) / limit_usd(job) * 100)))


def write(job: Job) -> Files:
    """A script that makes the budget, and what it sends."""
    return {"aws": _amazon, "azure": _azure, "gcp": _google}[job.option.provider](job)


def _script(job: Job, *, needs: dict[str, str], lines: list[str]) -> str:
    about = f"# A budget of {limit_usd(job)} USD for plan {job.plan_id}: mails at {planned_percent(job)} % (the plan's cost) and when the forecast passes the budget."
    return "\n".join(
        ["#!/bin/sh", about, "set -eu", *(f': "${{{name}:?set {name} to {meaning}}}"' for name, meaning in needs.items()), *lines, ""]
    )


def _amazon(job: Job) -> Files:
    budget = {
        "BudgetName": job.name,
        "BudgetType": "COST",
        "TimeUnit": "MONTHLY",
        "BudgetLimit": {"Amount": str(limit_usd(job)), "Unit": "USD"},
        "CostFilters": {"TagKeyValue": [f"user:rightfit-plan${job.plan_id}"]},
    }
    kinds = (("ACTUAL", planned_percent(job)), ("FORECASTED", MOST_PERCENT))
    notices = [
        {"NotificationType": kind, "ComparisonOperator": "GREATER_THAN", "Threshold": percent, "ThresholdType": "PERCENTAGE"}
        for kind, percent in kinds
    ]
    lines = [
        'case "$RIGHTFIT_EMAIL" in *[!A-Za-z0-9.@_+-]*) echo "RIGHTFIT_EMAIL is not an address" >&2; exit 2 ;; esac',
        "account=$(aws sts get-caller-identity --query Account --output text)",
        'here=$(cd "$(dirname "$0")" && pwd)',
        'aws budgets create-budget --account-id "$account" --budget "file://$here/budget.json"',
        *(
            f'aws budgets create-notification --account-id "$account" --budget-name {job.name} --notification {shell([to_json(notice).strip()])} '
            '--subscribers "SubscriptionType=EMAIL,Address=$RIGHTFIT_EMAIL"'
            for notice in notices
        ),
    ]
    lines = [line.replace("\n", " ") for line in lines]
    return {"budget.sh": _script(job, needs={"RIGHTFIT_EMAIL": "who is told"}, lines=lines), "budget.json": to_json(budget)}


def _google(job: Job) -> Files:
    words = [
        "gcloud",
        "billing",
        "budgets",
        "create",
        f"--display-name={job.name}",
        f"--budget-amount={limit_usd(job)}USD",
        f"--filter-labels=rightfit-plan={job.plan_id}",
        "--calendar-period=month",
        f"--threshold-rule=percent={planned_percent(job) / 100:g}",
        "--threshold-rule=percent=1.0,basis=forecasted-spend",
    ]
    needs = {"BILLING_ACCOUNT": "the billing account, 012345-567890-ABCDEF", "PROJECT": "the project that pays"}
    line = shell_lines(words) + ' \\\n  --billing-account="$BILLING_ACCOUNT" \\\n  --filter-projects="projects/$PROJECT"'
    return {"budget.sh": _script(job, needs=needs, lines=[line])}


def _azure(job: Job) -> Files:
    def notice(kind: str, percent: int) -> dict[str, Any]:
        return {
            "enabled": True,
            "operator": "GreaterThan",
            "threshold": percent,
            "thresholdType": kind,
            "contactEmails": ["[parameters('email')]"],
        }

    budget = {
        "type": "Microsoft.Consumption/budgets",
        "apiVersion": "2023-11-01",
        "name": job.name,
        "properties": {
            "category": "Cost",
            "amount": limit_usd(job),
            "timeGrain": "Monthly",
            "timePeriod": {"startDate": "[parameters('start')]"},
            "filter": {"tags": {"name": "rightfit-plan", "operator": "In", "values": [job.plan_id]}},
            "notifications": {"plan": notice("Actual", planned_percent(job)), "ceiling": notice("Forecasted", MOST_PERCENT)},
        },
    }
    template = {
        "$schema": "https://schema.management.azure.com/schemas/2018-05-01/subscriptionDeploymentTemplate.json#",
        "contentVersion": "1.0.0.0",
        "parameters": {"email": {"type": "string"}, "start": {"type": "string"}},
        "resources": [budget],
    }
    line = (
        f'az deployment sub create --name {job.name} --location {shell([job.option.region])} --template-file "$(dirname "$0")/budget.json" '
        '--parameters email="$RIGHTFIT_EMAIL" start="$(date +%Y-%m-01)"'
    )
    return {"budget.sh": _script(job, needs={"RIGHTFIT_EMAIL": "who is told"}, lines=[line]), "budget.json": to_json(template)}


def _refuses(job: Job) -> Message | str:
    if job.option.provider not in CLOUDS:
        return Message("export.part_no_budget_service", provider=job.option.provider, limit=limit_usd(job))
    return ""


TARGET = Target(
    "budget-alarm",
    "operations",
    "budget with mails at the plan's cost and ceiling",
    write,
    _refuses,
    checked_by="shellcheck; AWS: the real program against a simulated AWS; Google: gcloud's own parser",
    run="sh budget.sh",
)
