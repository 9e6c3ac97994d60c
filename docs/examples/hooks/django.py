# pushsweep.py of an app: device.send_message("hello", err_func=report)
import asyncio
import logging

from django.db import connection

async def report(request, result):
    """Reports an answer of APNs that was a failure, in a thread: sending neither waits for it nor fails."""
    asyncio.get_running_loop().run_in_executor(None, insert, request.device_token, result)

def insert(token, result):
    try:
        reason, time = result.description, getattr(result, "timestamp", None)
        with connection.cursor() as cursor:
            cursor.execute(
                "INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms)"
                " VALUES (%s, %s, %s, %s, %s)",
                ["chat", token, int(result.status), reason[:64] if isinstance(reason, str) else None,
                 time if type(time) is int else None])
    except Exception:
        logging.getLogger(__name__).exception("an answer of APNs was not reported")
    finally:
        connection.close()  # it is this thread's own
