require "json"

# Reports the answer of APNs to a notification. db is a Mysql2::Client.
def report(db, token, status, body)
  answer = body.to_s.empty? ? {} : JSON.parse(body)
  db.prepare("INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) VALUES (?, ?, ?, ?, ?)")
    .execute("chat", token, status, answer["reason"], answer["timestamp"])
end
