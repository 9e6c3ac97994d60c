"""Prints the authorization of a provider token: KEY KEYID TEAM."""

import sys
import time

import jwt


def bearer(key, key_id, team):
    with open(key) as file:
        return "bearer " + jwt.encode(
            {"iss": team, "iat": int(time.time())}, file.read(), "ES256", {"kid": key_id})


if __name__ == "__main__":
    print(bearer(*sys.argv[1:]))
