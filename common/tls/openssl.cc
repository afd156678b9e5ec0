#include "common/tls/openssl.h"

#include <kj/debug.h>
#include <limits.h>
#include <openssl/err.h>
#include <openssl/pem.h>

#include "common/base/error.h"
#include "common/net/ip.h"

namespace talos::pki {
namespace {

using Bio = Handle<BIO, BIO_free_all>;
using Pkcs8 = Handle<PKCS8_PRIV_KEY_INFO, PKCS8_PRIV_KEY_INFO_free>;

// One PEM block. The buffers may hold a key: they are zeroed.
struct Block {
  char* label = nullptr;
  char* header = nullptr;
  unsigned char* data = nullptr;
  long size = 0;

  Block() = default;
  ~Block() {
    OPENSSL_free(label);
    OPENSSL_free(header);
    OPENSSL_clear_free(data, size);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Block);
};

kj::StringPtr describe(kj::StringPtr found) {
  return found.size() == 0 ? "no PEM block"_kj : found;
}

// Calls `use(block)` for the blocks of the text until it returns true.
template <typename Use>
void eachBlock(kj::StringPtr pem, kj::StringPtr wanted, Use&& use) {
  KJ_DEFER(ERR_clear_error());
  if (pem.size() > INT_MAX) fail(ErrorKind::kInvalidArgument, "PEM text is too long");
  Bio bio(BIO_new_mem_buf(pem.begin(), static_cast<int>(pem.size())));
  check(bio != nullptr, "reading PEM");
  kj::String found;
  for (;;) {
    Block block;
    if (PEM_read_bio(bio.get(), &block.label, &block.header, &block.data, &block.size) != 1) break;
    if (use(block)) return;
    if (found.size() == 0) found = kj::str("a block \"", block.label, '"');
  }
  fail(ErrorKind::kInvalidArgument,
       kj::str("expected ", wanted, " in PEM form, found ", describe(found)));
}

EVP_PKEY* parsePkcs8(const unsigned char* data, long size) {
  Pkcs8 info(d2i_PKCS8_PRIV_KEY_INFO(nullptr, &data, size));
  return info ? EVP_PKCS82PKEY(info.get()) : nullptr;
}

// Returns the key of a block, null if it does not parse; sets `known` to whether its label is a
// private key's.
EVP_PKEY* parseKey(const Block& block, bool& known) {
  kj::StringPtr label = block.label;
  const unsigned char* data = block.data;
  known = true;
  if (label == "PRIVATE KEY" || label == "ED25519 PRIVATE KEY") {
    return parsePkcs8(data, block.size);
  }
  if (label == "EC PRIVATE KEY") return d2i_PrivateKey(EVP_PKEY_EC, nullptr, &data, block.size);
  if (label == "RSA PRIVATE KEY") return d2i_PrivateKey(EVP_PKEY_RSA, nullptr, &data, block.size);
  known = false;
  return nullptr;
}

kj::String textOf(BIO* bio) {
  char* data;
  long size = BIO_get_mem_data(bio, &data);
  return kj::heapString(data, size);
}

Pem writeBlock(const char* label, const unsigned char* der, int size) {
  Bio bio(BIO_new(BIO_s_secmem()));
  check(bio != nullptr && PEM_write_bio(bio.get(), label, "", der, size) > 0, "writing a key");
  return Pem(textOf(bio.get()));
}

Pem writePkcs8As(const char* label, EVP_PKEY* key) {
  Pkcs8 info(EVP_PKEY2PKCS8(key));
  check(info != nullptr, "encoding a key");
  unsigned char* der = nullptr;
  int size = i2d_PKCS8_PRIV_KEY_INFO(info.get(), &der);
  check(size > 0, "encoding a key");
  KJ_DEFER(OPENSSL_clear_free(der, size));
  return writeBlock(label, der, size);
}

}  // namespace

void failOpenssl(kj::StringPtr doing) {
  char text[256] = "unknown error";
  if (auto code = ERR_peek_last_error()) ERR_error_string_n(code, text, sizeof text);
  ERR_clear_error();
  fail(ErrorKind::kInternal, kj::str(doing, ": ", text));
}

Key readKey(kj::StringPtr pem) {
  Key key;
  eachBlock(pem, "a private key", [&](const Block& block) {
    bool known;
    Key parsed(parseKey(block, known));
    if (!known) return false;
    if (block.header[0] != '\0') {
      fail(ErrorKind::kInvalidArgument, "the private key is encrypted; use one without a password");
    }
    if (!parsed) {
      fail(ErrorKind::kInvalidArgument,
           kj::str("the block \"", block.label, "\" does not hold a key of that kind"));
    }
    key = kj::mv(parsed);
    return true;
  });
  return key;
}

Key readPublicKey(kj::StringPtr pem) {
  Key key;
  eachBlock(pem, "a public key", [&](const Block& block) {
    if (kj::StringPtr(block.label) != "PUBLIC KEY") return false;
    const unsigned char* data = block.data;
    key.reset(d2i_PUBKEY(nullptr, &data, block.size));
    if (!key || data != block.data + block.size) {
      fail(ErrorKind::kInvalidArgument, "the block \"PUBLIC KEY\" does not hold a public key");
    }
    return true;
  });
  return key;
}

Certificate readCertificate(kj::StringPtr pem) {
  Certificate certificate;
  eachBlock(pem, "a certificate", [&](const Block& block) {
    if (kj::StringPtr(block.label) != "CERTIFICATE") return false;
    const unsigned char* data = block.data;
    certificate.reset(d2i_X509(nullptr, &data, block.size));
    if (!certificate || data != block.data + block.size) {
      fail(ErrorKind::kInvalidArgument, "the block \"CERTIFICATE\" does not hold a certificate");
    }
    return true;
  });
  return certificate;
}

Request readRequest(kj::StringPtr pem) {
  Request request;
  eachBlock(pem, "a certificate request", [&](const Block& block) {
    if (kj::StringPtr(block.label) != "CERTIFICATE REQUEST") return false;
    const unsigned char* data = block.data;
    request.reset(d2i_X509_REQ(nullptr, &data, block.size));
    if (!request || data != block.data + block.size) {
      fail(ErrorKind::kInvalidArgument,
           "the block \"CERTIFICATE REQUEST\" does not hold a request");
    }
    return true;
  });
  return request;
}

Pem writeKey(EVP_PKEY* key) {
  const char* label;
  switch (EVP_PKEY_get_base_id(key)) {
    case EVP_PKEY_ED25519:
      return writePkcs8As("ED25519 PRIVATE KEY", key);
    case EVP_PKEY_EC:
      label = "EC PRIVATE KEY";
      break;
    case EVP_PKEY_RSA:
      label = "RSA PRIVATE KEY";
      break;
    default:
      return writePkcs8(key);
  }
  unsigned char* der = nullptr;
  int size = i2d_PrivateKey(key, &der);  // SEC1 and PKCS#1
  check(size > 0, "encoding a key");
  KJ_DEFER(OPENSSL_clear_free(der, size));
  return writeBlock(label, der, size);
}

Pem writePkcs8(EVP_PKEY* key) {
  return writePkcs8As("PRIVATE KEY", key);
}

kj::String writeCertificate(X509* certificate) {
  Bio bio(BIO_new(BIO_s_mem()));
  check(bio && PEM_write_bio_X509(bio.get(), certificate) == 1, "writing a certificate");
  return textOf(bio.get());
}

kj::String writeRequest(X509_REQ* request) {
  Bio bio(BIO_new(BIO_s_mem()));
  check(bio && PEM_write_bio_X509_REQ(bio.get(), request) == 1, "writing a request");
  return textOf(bio.get());
}

kj::Vector<kj::String> namesOf(const X509_NAME* subject, int nid) {
  kj::Vector<kj::String> result;
  for (int i = -1; (i = X509_NAME_get_index_by_NID(subject, nid, i)) >= 0;) {
    unsigned char* text = nullptr;
    int size =
        ASN1_STRING_to_UTF8(&text, X509_NAME_ENTRY_get_data(X509_NAME_get_entry(subject, i)));
    if (size < 0) {
      ERR_clear_error();
      fail(ErrorKind::kInvalidArgument, "the subject has a field that is not a string");
    }
    KJ_DEFER(OPENSSL_free(text));
    auto value = kj::heapString(reinterpret_cast<char*>(text), size);
    if (value.findFirst('\0') != nullptr) {
      fail(ErrorKind::kInvalidArgument, "the subject holds a NUL character");
    }
    result.add(kj::mv(value));
  }
  return result;
}

void readAlternativeNames(const GENERAL_NAMES* names, kj::Vector<kj::String>& dnsNames,
                          kj::Vector<kj::String>& addresses) {
  for (int i = 0; i < sk_GENERAL_NAME_num(names); ++i) {
    int type;
    auto* value = static_cast<const ASN1_STRING*>(
        GENERAL_NAME_get0_value(sk_GENERAL_NAME_value(names, i), &type));
    if (type != GEN_DNS && type != GEN_IPADD) continue;
    auto* data = ASN1_STRING_get0_data(value);
    int size = ASN1_STRING_length(value);
    if (type == GEN_DNS) {
      auto name = kj::heapString(reinterpret_cast<const char*>(data), size);
      if (name.findFirst('\0') != nullptr) {
        fail(ErrorKind::kInvalidArgument, "a DNS name holds a NUL character");
      }
      dnsNames.add(kj::mv(name));
    } else {
      auto address = KJ_UNWRAP_OR(Ip::fromBytes(kj::arrayPtr(data, size)), {
        fail(ErrorKind::kInvalidArgument, kj::str("an IP address of ", size, " bytes"));
      });
      addresses.add(address.toString());
    }
  }
}

}  // namespace talos::pki
