package sender

import (
	"database/sql"
	"encoding/json"
)

// Report reports the answer of APNs to a notification.
func Report(db *sql.DB, token string, status int, body []byte) error {
	var answer struct {
		Reason    *string `json:"reason"`
		Timestamp *int64  `json:"timestamp"`
	}
	_ = json.Unmarshal(body, &answer) // a proxy's page leaves both nil
	_, err := db.Exec("INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms)"+
		" VALUES (?, ?, ?, ?, ?)", "chat", token, status, answer.Reason, answer.Timestamp)
	return err
}
