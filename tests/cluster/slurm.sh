#!/usr/bin/env bash
# A Slurm of two nodes on this host, with accounting, for the tests of a cluster: root on Debian or Ubuntu, without a
# Slurm of its own. `tests/cluster/slurm.sh up` installs what is missing and starts it, `down` ends it.
set -euo pipefail

cluster=gpu-report-test # by which the tests know it
state=/var/spool/$cluster

runs() {
    pgrep --exact "$1" >/dev/null
}

# until_it_works SECONDS COMMAND...
until_it_works() {
    local seconds=$1
    shift
    for _ in $(seq "$seconds"); do
        if "$@" >/dev/null 2>&1; then return; fi
        sleep 1
    done
    echo "slurm.sh: after $seconds s this still fails: $*" >&2
    exit 1
}

is_ours() {
    grep --quiet --no-messages "ClusterName=$cluster" /etc/slurm/slurm.conf
}

down() {
    local name
    is_ours || return 0
    for name in slurmd slurmctld slurmdbd; do
        pkill --exact "$name" || true
        for _ in $(seq 20); do
            runs "$name" || break
            sleep 0.5
        done
    done
    mariadb-admin shutdown 2>/dev/null || true
}

# The database that accounting needs: Snakemake's executor asks for finished jobs there.
start_database() {
    install --directory --owner=mysql /run/mysqld
    setsid --fork mariadbd-safe --bind-address=127.0.0.1 >/dev/null 2>&1 </dev/null
    until_it_works 30 mariadb-admin ping
    mariadb --execute "create database if not exists slurm_acct_db;
        create or replace user slurm@localhost identified by 'slurm';
        grant all on slurm_acct_db.* to slurm@localhost"
}

write_settings() {
    local host
    host=$(hostname --short)
    install --directory --owner=slurm $state /var/log/slurm
    install --directory /etc/slurm /var/spool/slurmd.n1 /var/spool/slurmd.n2
    cat >/etc/slurm/slurmdbd.conf <<SETTINGS
AuthType=auth/munge
DbdHost=localhost
SlurmUser=slurm
StorageType=accounting_storage/mysql
StorageUser=slurm
StoragePass=slurm
StorageLoc=slurm_acct_db
LogFile=/var/log/slurm/slurmdbd.log
PidFile=$state/slurmdbd.pid
SETTINGS
    # Real nodes have a temporary folder each, where one measurement at a time holds the lock.
    cat >/etc/slurm/task_prolog.sh <<'SCRIPT'
#!/bin/sh
mkdir -p "/tmp/$SLURMD_NODENAME"
echo "export TMPDIR=/tmp/$SLURMD_NODENAME"
SCRIPT
    chmod +x /etc/slurm/task_prolog.sh
    chown slurm /etc/slurm/slurmdbd.conf
    chmod 600 /etc/slurm/slurmdbd.conf
    cat >/etc/slurm/slurm.conf <<SETTINGS
ClusterName=$cluster
SlurmctldHost=$host(127.0.0.1)
AuthType=auth/munge
SlurmUser=slurm
StateSaveLocation=$state
SlurmdSpoolDir=/var/spool/slurmd.%n
SlurmctldPidFile=$state/slurmctld.pid
SlurmdPidFile=/var/spool/slurmd.%n/slurmd.pid
SlurmctldLogFile=/var/log/slurm/slurmctld.log
SlurmdLogFile=/var/log/slurm/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskProlog=/etc/slurm/task_prolog.sh
TaskPlugin=task/affinity
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
AccountingStorageType=accounting_storage/slurmdbd
AccountingStorageHost=localhost
JobAcctGatherType=jobacct_gather/linux
ReturnToService=2
NodeName=n1 NodeHostname=$host NodeAddr=127.0.0.1 Port=17001 CPUs=2 RealMemory=4000
NodeName=n2 NodeHostname=$host NodeAddr=127.0.0.1 Port=17002 CPUs=2 RealMemory=4000
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
SETTINGS
}

up() {
    if [ -e /etc/slurm/slurm.conf ] && ! is_ours; then
        echo "slurm.sh: this host has a Slurm of its own, /etc/slurm/slurm.conf; run the tests elsewhere" >&2
        exit 1
    fi
    if sinfo >/dev/null 2>&1; then
        echo "Slurm: runs already"
        return
    fi
    if runs mariadbd; then
        echo "slurm.sh: this host has a MariaDB of its own; run the tests elsewhere" >&2
        exit 1
    fi
    if ! command -v slurmdbd >/dev/null; then
        echo "Slurm: installing slurm-wlm slurmdbd mariadb-server munge (about 40 s)"
        { apt-get update && DEBIAN_FRONTEND=noninteractive apt-get install --yes --no-install-recommends \
            slurm-wlm slurm-client slurmdbd mariadb-server munge; } >/dev/null </dev/null
    fi
    install --directory --owner=munge /run/munge
    runs munged || runuser --user munge -- munged
    write_settings
    runs mariadbd && mariadb-admin shutdown # which the package starts
    start_database
    getent hosts n1 >/dev/null || echo "127.0.0.1 n1 n2" >>/etc/hosts
    setsid slurmdbd
    until_it_works 20 sacctmgr --noheader list cluster
    sacctmgr --immediate add cluster $cluster >/dev/null || true # it is there already
    setsid slurmctld
    until_it_works 20 scontrol ping
    setsid slurmd -N n1
    setsid slurmd -N n2
    until_it_works 30 srun --nodes=2 true
    sinfo
}

case "${1:-}" in
up | down) "$1" ;;
*)
    echo "slurm.sh: say up or down" >&2
    exit 1
    ;;
esac
