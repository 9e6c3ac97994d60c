import json

def report(db, token, status, body):
    """Reports the answer of APNs to a notification. db is a connection of PyMySQL or mysqlclient."""
    try:
        answer = json.loads(body)
    except (TypeError, ValueError):
        answer = None  # no body, or a proxy's page
    answer = answer if isinstance(answer, dict) else {}
    reason, time = answer.get("reason"), answer.get("timestamp")
    with db.cursor() as cursor:
        cursor.execute(
            "INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms)"
            " VALUES (%s, %s, %s, %s, %s)",
            ("chat", token, status, reason[:64] if isinstance(reason, str) else None,
             time if isinstance(time, int) else None))
    db.commit()
