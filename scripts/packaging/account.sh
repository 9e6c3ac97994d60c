# shellcheck shell=sh
# Makes the user pushsweep and the state folder, as sysusers.conf and tmpfiles.conf say, also where no
# systemd does it, and says what comes next. Part of scripts/install and of the package's postinst.
make_account() {
    if command -v systemd-sysusers >/dev/null; then
        systemd-sysusers pushsweep.conf
    elif ! getent passwd pushsweep >/dev/null; then
        getent group pushsweep >/dev/null || groupadd --system pushsweep
        useradd --system --gid pushsweep --no-create-home --home-dir /var/lib/pushsweep \
            --comment "Sweeper of push tokens" --shell /usr/sbin/nologin pushsweep
    fi
    if command -v systemd-tmpfiles >/dev/null; then
        systemd-tmpfiles --create pushsweep.conf
    else
        install -d -o pushsweep -g pushsweep -m 0700 /var/lib/pushsweep
    fi
}

say_next() {
    echo "pushsweep: next: pushsweep init mysql://USER@HOST/DATABASE looks at your table and changes nothing"
}
