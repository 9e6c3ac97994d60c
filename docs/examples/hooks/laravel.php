<?php
// app/Listeners/ReportToPushsweep.php: Laravel finds a listener by the type of its event.

namespace App\Listeners;

use Illuminate\Notifications\Events\NotificationFailed;
use Illuminate\Support\Facades\DB;

class ReportToPushsweep
{
    // What APNs says of a token. The event has no status.
    private const STATUS = ['Unregistered' => 410, 'ExpiredToken' => 410,
                            'BadDeviceToken' => 400, 'DeviceTokenNotForTopic' => 400];

    public function handle(NotificationFailed $event): void
    {
        rescue(function () use ($event) { // what fails here goes to the log, and the sending goes on
            $reason = $event->data['error'] ?? null;
            $status = is_string($reason) ? self::STATUS[$reason] ?? null : null;
            if ($status === null) return; // an answer about the request, or of another channel
            DB::table('pushsweep_evidence')->insert([
                'app' => 'chat', 'device_token' => $event->data['token'], 'status' => $status,
                'reason' => $reason, 'timestamp_ms' => (int) (microtime(true) * 1000)]);
        });
    }
}
