<?php
// Reads a feedback list in the form of the tutorials of 2010 and prints how many tuples it had:
// HOST PORT CERTIFICATE KEY. It keeps all tuples, as these scripts do before they touch the database.
ini_set('memory_limit', '-1');
[, $host, $port, $certificate, $key] = $argv;

$context = stream_context_create();
stream_context_set_option($context, 'ssl', 'local_cert', $certificate);
stream_context_set_option($context, 'ssl', 'local_pk', $key);
stream_context_set_option($context, 'ssl', 'verify_peer', false);
stream_context_set_option($context, 'ssl', 'verify_peer_name', false);
$apns = stream_socket_client("ssl://$host:$port", $code, $message, 60, STREAM_CLIENT_CONNECT, $context);
if (!$apns) {
    fwrite(STDERR, "cannot connect: $code $message\n");
    exit(1);
}

$tuples = [];
while (!feof($apns)) {
    $data = fread($apns, 38);
    if (strlen($data)) {
        $tuples[] = unpack('N1timestamp/n1length/H*devtoken', $data);
    }
}
fclose($apns);

// fread may give less than 38 bytes where a TLS record ends inside of a tuple. The tutorials do not look.
$whole = 0;
foreach ($tuples as $tuple) {
    if (strlen($tuple['devtoken'] ?? '') === 64 && $tuple['length'] === 32) {
        $whole++;
    }
}
echo $whole, "\n";
