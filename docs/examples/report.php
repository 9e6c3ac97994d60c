<?php
$db = new PDO(getenv('PUSH_DSN'), getenv('PUSH_USER'), getenv('PUSH_PASSWORD'));
$report = $db->prepare('INSERT INTO pushsweep_evidence (app, device_token, status, reason, timestamp_ms)
                        VALUES (?, ?, ?, ?, ?)');

// $status and $body are the answer of APNs to a notification for $token.
function report(PDOStatement $report, string $token, int $status, string $body): void {
    $answer = json_decode($body, true) ?? [];
    $report->execute(['chat', $token, $status, $answer['reason'] ?? null, $answer['timestamp'] ?? null]);
}
