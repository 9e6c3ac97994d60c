// What Swift needs of Debian's OpenSSL 3: its headers, and functions for the macros that Swift
// cannot import, and Linux calls that Swift's Glibc module leaves out. No logic: that is in
// SecureTransport.
#ifndef PUSHSWEEP_COPENSSL_SHIM_H
#define PUSHSWEEP_COPENSSL_SHIM_H

#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/pkcs12.h>
#include <openssl/provider.h>
#include <openssl/rand.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/socket.h>

// Contexts.
static inline int pushsweep_ctx_set_min_version(SSL_CTX *ctx, int version) {
    return (int)SSL_CTX_set_min_proto_version(ctx, version);
}
static inline int pushsweep_ctx_set_max_version(SSL_CTX *ctx, int version) {
    return (int)SSL_CTX_set_max_proto_version(ctx, version);
}
// The caller's buffer may move between two tries of one write: Swift arrays do.
static inline void pushsweep_ctx_allow_partial_writes(SSL_CTX *ctx) {
    SSL_CTX_set_mode(ctx, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}
static inline void pushsweep_ctx_read_ahead(SSL_CTX *ctx, size_t buffer) {
    SSL_CTX_set_read_ahead(ctx, 1);
    SSL_CTX_set_default_read_buffer_len(ctx, buffer);
}
static inline void pushsweep_ctx_forget_sessions(SSL_CTX *ctx) {
    SSL_CTX_set_session_cache_mode(ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(ctx, SSL_OP_NO_TICKET);
    SSL_CTX_set_num_tickets(ctx, 0);
}
static inline void pushsweep_ctx_refuse_renegotiation(SSL_CTX *ctx) {
    SSL_CTX_set_options(ctx, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    SSL_CTX_clear_options(ctx, SSL_OP_IGNORE_UNEXPECTED_EOF);
}
static inline int pushsweep_ctx_add_chain_certificate(SSL_CTX *ctx, X509 *certificate) {
    return (int)SSL_CTX_add1_chain_cert(ctx, certificate);
}

// Connections.
static inline int pushsweep_ssl_set_server_name(SSL *ssl, const char *name) {
    return (int)SSL_set_tlsext_host_name(ssl, name);
}
static inline int pushsweep_ssl_set_app_data(SSL *ssl, void *data) {
    return SSL_set_app_data(ssl, data);
}
static inline void *pushsweep_ssl_get_app_data(const SSL *ssl) {
    return SSL_get_app_data(ssl);
}
static inline void *pushsweep_store_get_app_data(const X509_STORE_CTX *store) {
    SSL *ssl = (SSL *)X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx());
    return ssl ? SSL_get_app_data(ssl) : NULL;
}

// Certificates and keys.
static inline int pushsweep_chain_count(const STACK_OF(X509) *chain) {
    return chain ? sk_X509_num(chain) : 0;
}
static inline X509 *pushsweep_chain_at(const STACK_OF(X509) *chain, int index) {
    return sk_X509_value(chain, index);
}
static inline void pushsweep_chain_free(STACK_OF(X509) *chain) {
    sk_X509_pop_free(chain, X509_free);
}
static inline STACK_OF(X509) *pushsweep_chain_new(void) {
    return sk_X509_new_null();
}
static inline int pushsweep_chain_push(STACK_OF(X509) *chain, X509 *certificate) {
    if (!X509_up_ref(certificate)) return 0;
    return sk_X509_push(chain, certificate);
}
static inline EVP_PKEY *pushsweep_generate_p256_key(void) {
    return EVP_EC_gen("P-256");
}
// RFC 2253, control characters escaped, UTF-8 left readable.
static inline int pushsweep_name_print(BIO *out, const X509_NAME *name) {
    return X509_NAME_print_ex(out, name, 0, XN_FLAG_RFC2253 & ~ASN1_STRFLGS_ESC_MSB);
}

// Linux.
// Swift does not import functions with a variable number of arguments. 0 where the call fails.
static inline int pushsweep_unacknowledged(int socket) {
    int bytes = 0;
    return ioctl(socket, TIOCOUTQ, &bytes) == 0 ? bytes : 0;
}
static inline int pushsweep_eventfd(void) {
    return eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
}

static inline int pushsweep_forbid_dumps(void) {
    return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

// glibc declares accept4 only for GNU sources, which a module header cannot ask for.
extern int accept4(int, struct sockaddr *, socklen_t *, int);
static inline int pushsweep_accept(int listener, struct sockaddr *peer, socklen_t *length) {
    return accept4(listener, peer, length, SOCK_NONBLOCK | SOCK_CLOEXEC);
}

extern int posix_spawn_file_actions_addclosefrom_np(posix_spawn_file_actions_t *, int);
static inline int pushsweep_close_others(posix_spawn_file_actions_t *actions) {
    return posix_spawn_file_actions_addclosefrom_np(actions, 3);
}
extern int memfd_create(const char *, unsigned int);
static inline int pushsweep_memory_file(void) {
    return memfd_create("pushsweep", 1U);  // MFD_CLOEXEC
}

// Memory streams.
static inline long pushsweep_bio_contents(BIO *bio, char **start) {
    return BIO_get_mem_data(bio, start);
}

#endif
