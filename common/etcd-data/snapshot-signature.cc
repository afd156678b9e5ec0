#include "common/etcd-data/snapshot-signature.h"

#include <kj/encoding.h>
#include <openssl/cms.h>
#include <openssl/err.h>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/sha256.h"
#include "common/tls/openssl.h"

namespace talos {
namespace {

using Message = pki::Handle<CMS_ContentInfo, CMS_ContentInfo_free>;
using Memory = pki::Handle<BIO, BIO_free_all>;

constexpr kj::StringPtr kTitle = "snapshot of etcd, 1\n"_kj;
constexpr size_t kIdDigits = 16;

[[noreturn]] void invalid(kj::StringPtr error) {
  fail(ErrorKind::kInvalidArgument, kj::str("not a valid signature of a snapshot: ", error));
}

kj::String format(const SnapshotStatement& statement) {
  auto id = kj::hex(statement.cluster);
  return kj::str(kTitle, "taken ", dateText(statement.taken), "\ncluster ",
                 kj::repeat('0', kIdDigits - id.size()), id, "\nbytes ", statement.bytes,
                 "\nsha256 ", kj::encodeHex(statement.sha256), "\n");
}

// Takes "KEY VALUE\n" off the text.
kj::String takeLine(kj::StringPtr& text, kj::StringPtr key) {
  auto begin = key.size() + 1;
  auto end = text.findFirst('\n').orDefault(0);
  bool whole = text.startsWith(key) && end > begin && text[key.size()] == ' ';
  if (!whole) invalid(kj::str("its statement has no \"", key, "\""));
  auto value = kj::str(text.slice(begin, end));
  text = text.slice(end + 1);
  return value;
}

SnapshotStatement parse(kj::StringPtr whole) {
  if (!whole.startsWith(kTitle)) invalid("its statement is about something else");
  auto text = whole.slice(kTitle.size());
  SnapshotStatement statement;
  auto taken = takeLine(text, "taken"), cluster = takeLine(text, "cluster"),
       bytes = takeLine(text, "bytes"), digest = takeLine(text, "sha256");
  KJ_IF_MAYBE (date, parseDate(taken)) statement.taken = *date;
  statement.cluster = kj::str("0x", cluster).tryParseAs<uint64_t>().orDefault(0);
  statement.bytes = bytes.tryParseAs<uint64_t>().orDefault(0);
  statement.sha256 = kj::decodeHex(digest);
  // A statement has one form, so a value that was misread differs.
  if (statement.sha256.size() != Sha256::kBytes || format(statement) != whole) {
    invalid("its statement has a value that is not valid");
  }
  return statement;
}

Message readMessage(kj::ArrayPtr<const kj::byte> bytes) {
  if (bytes.size() > kMostSnapshotSignature) invalid(kj::str("it has ", bytes.size(), " bytes"));
  auto* at = bytes.begin();
  Message message(d2i_CMS_ContentInfo(nullptr, &at, static_cast<long>(bytes.size())));
  if (message == nullptr || at != bytes.end())
    invalid("it was cut off, or is another kind of file");
  if (OBJ_obj2nid(CMS_get0_type(message.get())) != NID_pkcs7_signed) invalid("nobody signed it");
  return message;
}

// Returns the content, which the signers in the message have signed; the caller must check who the
// signers are.
kj::String signedContent(CMS_ContentInfo* message) {
  Memory out(BIO_new(BIO_s_mem()));
  pki::check(out != nullptr, "verifying a signature");
  constexpr unsigned kFlags = CMS_BINARY | CMS_NO_SIGNER_CERT_VERIFY;
  if (CMS_verify(message, nullptr, nullptr, nullptr, out.get(), kFlags) != 1) {
    invalid("it was changed after it was signed, or cut off");
  }
  char* begin = nullptr;
  auto size = BIO_get_mem_data(out.get(), &begin);
  return kj::heapString(begin, size > 0 ? static_cast<size_t>(size) : 0);
}

// Returns the signer's certificate as PEM.
kj::String signerOf(CMS_ContentInfo* message) {
  auto* signers = CMS_get0_signers(message);
  KJ_DEFER(sk_X509_free(signers));
  if (sk_X509_num(signers) != 1) invalid("it has not one signer");
  return pki::writeCertificate(sk_X509_value(signers, 0));
}

}  // namespace

void SnapshotStatement::requireFor(uint64_t databaseBytes,
                                   kj::ArrayPtr<const kj::byte> digest) const {
  if (databaseBytes == bytes && digest == sha256) return;
  fail(ErrorKind::kInvalidArgument,
       kj::str("the signature is of another snapshot, taken ", dateText(taken)));
}

kj::Array<kj::byte> signSnapshot(const SnapshotStatement& statement, kj::StringPtr certificate,
                                 kj::StringPtr key) {
  constexpr auto kDoing = "signing a snapshot"_kj;
  KJ_DEFER(ERR_clear_error());
  auto text = format(statement);
  auto signer = pki::readCertificate(certificate);
  auto signersKey = pki::readKey(key);
  Memory content(BIO_new_mem_buf(text.begin(), static_cast<int>(text.size())));
  Message message(CMS_sign(nullptr, nullptr, nullptr, nullptr, CMS_BINARY | CMS_PARTIAL));
  pki::check(content != nullptr && message != nullptr, kDoing);
  // SHA-512, which Ed25519 requires (RFC 8419).
  constexpr unsigned kFlags = CMS_BINARY | CMS_NOSMIMECAP;
  pki::check(CMS_add1_signer(message.get(), signer.get(), signersKey.get(), EVP_sha512(), kFlags) !=
                 nullptr,
             kDoing);
  pki::check(CMS_final(message.get(), content.get(), nullptr, CMS_BINARY) == 1, kDoing);
  unsigned char* der = nullptr;
  int size = i2d_CMS_ContentInfo(message.get(), &der);
  pki::check(size > 0, kDoing);
  KJ_DEFER(OPENSSL_free(der));
  return kj::heapArray<kj::byte>(der, static_cast<size_t>(size));
}

SnapshotStatement verifySnapshot(kj::ArrayPtr<const kj::byte> signature,
                                 kj::StringPtr authorities) {
  KJ_DEFER(ERR_clear_error());
  auto message = readMessage(signature);
  auto statement = parse(signedContent(message.get()));
  auto signer = signerOf(message.get());
  KJ_IF_MAYBE (error, pki::serverCertificateError(signer, authorities, statement.taken)) {
    fail(ErrorKind::kInvalidArgument,
         kj::str("the snapshot is not signed by a member of this cluster's etcd: ", *error));
  }
  return statement;
}

}  // namespace talos
