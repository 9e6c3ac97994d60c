import json

def report(db, token, status, body):
    """Reports the answer of APNs to a notification. db is a connection of PyMySQL or mysqlclient."""
    answer = json.loads(body) if body else {}
    with db.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms)"
            " VALUES (%s, %s, %s, %s, %s)",
            ("chat", token, status, answer.get("reason"), answer.get("timestamp")))
    db.commit()
