<?php
$db = new PDO(getenv('PUSH_DSN'), getenv('PUSH_USER'), getenv('PUSH_PASSWORD'));
$report = $db->prepare('INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms)
                        VALUES (?, ?, ?, ?, ?)');

// $status and $body are the answer of APNs to a notification for $token.
function report(PDOStatement $report, string $token, int $status, string $body): void {
    $answer = json_decode($body, true); // null for a proxy's page
    $reason = is_array($answer) ? $answer['reason'] ?? null : null;
    $time = is_array($answer) ? $answer['timestamp'] ?? null : null;
    $report->execute(['chat', $token, $status, is_string($reason) ? substr($reason, 0, 64) : null,
                      is_int($time) ? $time : null]);
}
