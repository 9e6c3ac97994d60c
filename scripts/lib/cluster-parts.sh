# shellcheck shell=bash
# What clusters need beyond scripts/bootstrap --tests: Galera, the scripts of a state transfer,
# HAProxy. Installing Debian's packages of these would start services. So packages that are not installed
# are downloaded and unpacked below .build-cluster, which needs no root, and used from there.
#
#   parts_need PACKAGE...   has the packages, installed or unpacked; fails with what to do
#   parts_file PATH...      the first of the files that is there, in the system or unpacked
#   parts_environment       words for `env`, so that a program finds what was unpacked

PARTS_HOME=$PWD/.build-cluster

parts_need() {
    local package wanted missing=() server
    # A plugin loads into a server of the very same version only.
    server=$(dpkg-query --show --showformat='${Version}' mariadb-server-core 2>/dev/null || true)
    for package in "$@"; do
        [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null)" != installed ] ||
            continue
        wanted=$package
        case $package in mariadb-*) [ -z "$server" ] || wanted=$package=$server ;; esac
        [ -e "$PARTS_HOME/have/$wanted" ] || missing+=("$wanted")
    done
    [ ${#missing[@]} -gt 0 ] || return 0
    echo "cluster: unpacking ${missing[*]} in $PARTS_HOME" >&2
    # What is no secret may serve another user of the same sources.
    local mask
    mask=$(umask)
    umask 022
    if ! mkdir -p "$PARTS_HOME/have" || [ ! -w "$PARTS_HOME" ]; then
        echo "cluster: cannot write $PARTS_HOME; use a copy of the sources that is yours" >&2
        return 1
    fi
    rm -rf "$PARTS_HOME/download"
    mkdir "$PARTS_HOME/download"
    if ! (cd "$PARTS_HOME/download" &&
        apt-get -qq -o APT::Sandbox::User= download "${missing[@]}" >&2); then
        rm -rf "$PARTS_HOME/download"
        echo "cluster: cannot download ${missing[*]}; run apt-get update as root and try again, or" \
            "install the packages and disable the services that they start" >&2
        return 1
    fi
    for package in "$PARTS_HOME"/download/*.deb; do
        dpkg-deb -x "$package" "$PARTS_HOME"
    done
    rm -rf "$PARTS_HOME/download"
    for wanted in "${missing[@]}"; do : >"$PARTS_HOME/have/$wanted"; done
    umask "$mask"
}

parts_file() {
    local path root
    for root in "" "$PARTS_HOME"; do
        for path in "$@"; do
            [ -e "$root$path" ] && echo "$root$path" && return
        done
    done
    echo "cluster: none of these files is there, in the system or below $PARTS_HOME: $*" >&2
    return 1
}

# Programs of the cluster itself come first, then the system's own.
parts_environment() {
    local libraries=("$PARTS_HOME"/usr/lib/*-linux-gnu)
    echo "PATH=$CLUSTER_HOME/bin:$PATH:/usr/sbin:$PARTS_HOME/usr/bin:$PARTS_HOME/usr/sbin"
    [ ! -d "${libraries[0]}" ] || echo "LD_LIBRARY_PATH=${libraries[0]}"
}
