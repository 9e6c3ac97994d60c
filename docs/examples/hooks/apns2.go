package sender

import (
	"database/sql"
	"fmt"
	"log"

	"github.com/sideshow/apns2"
)

// Report reports what client.Push(notification) returned where it was a failure. After an error nothing is known:
// there was no answer, or a proxy's page.
func Report(db *sql.DB, token string, response *apns2.Response, err error) {
	if err != nil || response == nil || response.Sent() {
		return
	}
	reason := fmt.Sprintf("%.64s", response.Reason)
	time := sql.NullInt64{Int64: response.Timestamp.UnixMilli(), Valid: !response.Timestamp.IsZero()}
	_, err = db.Exec("INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms)"+
		" VALUES (?, ?, ?, ?, ?)", "chat", token, response.StatusCode, reason, time)
	if err != nil {
		log.Printf("an answer of APNs was not reported: %v", err) // the sending goes on
	}
}
