// Reports the answer of APNs to a notification. db is a connection of mysql2/promise.
async function report(db, token, status, body) {
  const answer = body ? JSON.parse(body) : {};
  await db.execute(
    'INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) VALUES (?, ?, ?, ?, ?)',
    ['chat', token, status, answer.reason ?? null, answer.timestamp ?? null]);
}
module.exports = { report };
