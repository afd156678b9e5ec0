#include "common/etcd-data/cms-output.h"

#include <errno.h>
#include <kj/debug.h>
#include <openssl/cms.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <string.h>

#include "common/base/error.h"

namespace talos {
namespace {

kj::String newestError() {
  char text[256] = "";
  ERR_error_string_n(ERR_peek_last_error(), text, sizeof text);
  ERR_clear_error();
  return kj::str(kj::StringPtr(text));
}

}  // namespace

CmsRecipient::CmsRecipient(kj::StringPtr pem, kj::StringPtr source) {
  KJ_REQUIRE(pem.size() <= kMostCertificate, source);
  BIO* in = BIO_new_mem_buf(pem.begin(), static_cast<int>(pem.size()));
  X509* certificate = PEM_read_bio_X509(in, nullptr, nullptr, nullptr);
  BIO_free(in);
  if (certificate == nullptr) {
    ERR_clear_error();
    fail(ErrorKind::kInvalidArgument,
         kj::str(source,
                 " is not a certificate in PEM format; make one with `openssl req -x509 "
                 "-newkey rsa:3072 -nodes -keyout key.pem -out certificate.pem -subj /CN=backup`"));
  }
  auto stack = sk_X509_new_null();
  sk_X509_push(stack, certificate);
  certificates = stack;
  auto kind = EVP_PKEY_get_base_id(X509_get0_pubkey(certificate));
  if (kind != EVP_PKEY_RSA && kind != EVP_PKEY_EC) {
    sk_X509_pop_free(stack, X509_free);
    fail(ErrorKind::kInvalidArgument,
         kj::str(source,
                 ": nothing can be encrypted to a key of this kind; use one of RSA or of a "
                 "curve of NIST"));
  }
}

CmsRecipient::~CmsRecipient() noexcept(false) {
  sk_X509_pop_free(static_cast<STACK_OF(X509)*>(certificates), X509_free);
}

struct CmsOutput::Parts {
  BIO* out = nullptr;
  BIO* chain = nullptr;  // through the encryption to `out` at its end
  CMS_ContentInfo* message = nullptr;

  ~Parts() {
    while (chain != nullptr && chain != out) {
      BIO* next = BIO_pop(chain);
      BIO_free(chain);
      chain = next;
    }
    BIO_free(out);
    CMS_ContentInfo_free(message);
  }
};

CmsOutput::CmsOutput(int fd, const CmsRecipient& recipient) : parts(new Parts) {
  parts->out = BIO_new_fd(fd, BIO_NOCLOSE);
  parts->message = CMS_encrypt(static_cast<STACK_OF(X509)*>(recipient.certificates), nullptr,
                               EVP_aes_256_gcm(), CMS_BINARY | CMS_STREAM | CMS_PARTIAL);
  if (parts->message != nullptr) parts->chain = BIO_new_CMS(parts->out, parts->message);
  if (parts->chain == nullptr) {
    delete parts;
    fail(ErrorKind::kFailedPrecondition, kj::str("cannot encrypt: ", newestError()));
  }
}

CmsOutput::~CmsOutput() noexcept(false) {
  delete parts;
}

void CmsOutput::write(kj::ArrayPtr<const kj::byte> bytes) {
  errno = 0;
  size_t written = 0;
  if (BIO_write_ex(parts->chain, bytes.begin(), bytes.size(), &written) == 1 &&
      written == bytes.size()) {
    return;
  }
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot write: ", errno != 0 ? kj::str(strerror(errno)) : newestError()));
}

void CmsOutput::finish() {
  errno = 0;
  if (BIO_flush(parts->chain) == 1) return;
  fail(ErrorKind::kFailedPrecondition,
       kj::str("cannot write: ", errno != 0 ? kj::str(strerror(errno)) : newestError()));
}

}  // namespace talos
