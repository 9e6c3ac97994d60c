// const { failed } = await provider.send(notification, tokens); await report(db, failed);
// db is a connection or a pool of mysql2/promise.
async function report(db, failed) {
  for (const entry of failed ?? []) {
    try {
      const { device, status, response } = entry;
      if (!response) continue; // no answer of APNs that can be read: nothing is known
      const { reason, timestamp } = response;
      await db.execute(
        'INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms) VALUES (?, ?, ?, ?, ?)',
        ['chat', device, Number(status), typeof reason === 'string' ? reason.slice(0, 64) : null,
         Number.isSafeInteger(timestamp) ? timestamp : null]);
    } catch (error) {
      console.error('an answer of APNs was not reported:', error); // the sending goes on
    }
  }
}
module.exports = { report };
