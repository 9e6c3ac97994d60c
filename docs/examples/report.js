// Reports the answer of APNs to a notification. db is a connection of mysql2/promise.
async function report(db, token, status, body) {
  let answer = {};
  try {
    answer = Object(JSON.parse(body));
  } catch {
    // No body, or a proxy's page.
  }
  await db.execute(
    'INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) VALUES (?, ?, ?, ?, ?)',
    ['chat', token, status, typeof answer.reason === 'string' ? answer.reason.slice(0, 64) : null,
      Number.isSafeInteger(answer.timestamp) ? answer.timestamp : null]);
}
module.exports = { report };
