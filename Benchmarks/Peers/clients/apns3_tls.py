"""The TLS call for which apns3 was written is gone from Python 3.12. It stands here for apns3 to find, with
TLS 1.2: the library takes the session tickets of TLS 1.3 for an error packet that breaks off."""

import ssl


def wrap_socket(sock, keyfile, certfile, do_handshake_on_connect=True):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(certfile, keyfile)
    return context.wrap_socket(sock, do_handshake_on_connect=do_handshake_on_connect)


ssl.wrap_socket = wrap_socket
