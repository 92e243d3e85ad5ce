#!/bin/sh
# One replica of a service on several servers: Ray joins them, the first starts the server. Usage: serve_group.sh RANK SERVERS HEAD COMMAND...
set -eu
rank="$1" servers="$2" head="$3"
shift 3
port="${RIGHTFIT_RAY_PORT:-6379}"
wait_s="${RIGHTFIT_JOIN_S:-1800}"
if [ "$rank" -gt 0 ]; then
  began=$(date +%s)
  # The head may come later: its image, its weights.
  until ray status --address "$head:$port" >/dev/null 2>&1; do
    [ $(($(date +%s) - began)) -lt "$wait_s" ] || { echo "no Ray at $head:$port after $wait_s s" >&2; exit 1; }
    sleep 5
  done
  # Ends when the head does, and with it the pod: who started the group starts it again.
  exec ray start --address "$head:$port" --block
fi
ray start --head --port "$port" --disable-usage-stats
python3 - "$servers" "$wait_s" <<'EOF'
import sys, time
import ray
wanted, until = int(sys.argv[1]), time.monotonic() + float(sys.argv[2])
ray.init(address="auto", log_to_driver=False)
while sum(node["Alive"] for node in ray.nodes()) < wanted:
    if time.monotonic() > until:
        raise SystemExit(f"only {sum(node['Alive'] for node in ray.nodes())} of {wanted} servers came")
    time.sleep(1)
EOF
exec "$@"
