require "json"

# Reports the answer of APNs to a notification. db is a Mysql2::Client.
def report(db, token, status, body)
  answer = begin
    JSON.parse(body.to_s)
  rescue JSON::ParserError, EncodingError
    nil # no body, or a proxy's page
  end
  answer = {} unless answer.is_a?(Hash)
  reason, time = answer["reason"], answer["timestamp"]
  db.prepare("INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) VALUES (?, ?, ?, ?, ?)")
    .execute("chat", token, status, reason.is_a?(String) ? reason[0, 64] : nil, time.is_a?(Integer) ? time : nil)
end
