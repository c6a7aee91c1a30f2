#!/bin/bash
# One job: server and learner on its first node, a collector host on each of the others. sbatch slurm.sh
#SBATCH --job-name=ant-7
#SBATCH --nodes=5
#SBATCH --ntasks-per-node=1
#SBATCH --cpus-per-task=32
#SBATCH --time=12:00:00
# SIGTERM a minute before the end: the learner saves a checkpoint.
#SBATCH --signal=B:TERM@60
set -euo pipefail

run=ant-7
project=$HOME/ant                 # train.mjs, collector.mjs, node_modules; on a file system that all nodes share
secret=$HOME/.hotslot/$SLURM_JOB_ID
first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n 1)
port=$((20000 + SLURM_JOB_ID % 10000))
cd "$project"

# A certificate and users of this job alone, which nobody else may read.
mkdir -p "$secret" && chmod 700 "$secret"
openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 7 -subj "/CN=$first" \
  -addext "subjectAltName=DNS:$first" -keyout "$secret/key.pem" -out "$secret/cert.pem" 2>/dev/null
npx hotslot acl --run "$run" --json > "$secret/acl.json"
field() { node -p "JSON.parse(fs.readFileSync('$secret/acl.json')).users.find((user) => user.role === '$1').$2"; }
{
  echo 'user default off'
  for role in learner collector; do field $role command | sed 's/^ACL SETUSER/user/'; done
} > "$secret/users.acl"

# The first node: this script runs there.
redis-server --port 0 --tls-port "$port" --tls-cert-file "$secret/cert.pem" --tls-key-file "$secret/key.pem" \
  --tls-auth-clients no --aclfile "$secret/users.acl" --dir "$secret" \
  --save '' --appendonly no --maxmemory 1gb --maxmemory-policy noeviction --tcp-backlog 1024 &
server=$!
url() { echo "rediss://hs-$run-$1@$first:$port"; }

HOTSLOT_REDIS_URL=$(url learner) HOTSLOT_REDIS_CA=$secret/cert.pem HOTSLOT_REDIS_PASSWORD=$(field learner password) \
  node train.mjs &
learner=$!

# A host on every other node, which waits for the learner by itself.
export HOTSLOT_REDIS_PASSWORD; HOTSLOT_REDIS_PASSWORD=$(field collector password)
srun --nodes=$((SLURM_JOB_NUM_NODES - 1)) --ntasks=$((SLURM_JOB_NUM_NODES - 1)) --exclude="$first" --overlap \
  npx hotslot collect --url "$(url collector)" --run "$run" --entry ./collector.mjs \
  --workers "$SLURM_CPUS_PER_TASK" --ca "$secret/cert.pem" &
hosts=$!

end() { kill -TERM "$learner" "$hosts" "$server" 2>/dev/null || true; }
trap end TERM INT
code=0
wait "$learner" || code=$?
kill -TERM "$hosts" 2>/dev/null || true
wait "$hosts" || true
kill -TERM "$server" 2>/dev/null || true
wait || true
rm -rf "$secret"
exit "$code"
