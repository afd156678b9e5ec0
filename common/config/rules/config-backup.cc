// cluster.etcd.backup.
#include "common/base/error.h"
#include "common/config/kubernetes/endpoint.h"
#include "common/config/rules/config-check.h"
#include "common/etcd-data/cms-output.h"
#include "common/net/text-values.h"
#include "common/tls/pki.h"

namespace talos::config {
namespace {

constexpr kj::StringPtr kBackupPath = "cluster.etcd.backup"_kj;
constexpr auto kShortestEvery = 10 * kj::SECONDS, kLongestEvery = 168 * kj::HOURS;
constexpr uint32_t kMostKept = 900;
constexpr size_t kLongestName = 512;

// Checks "General purpose bucket naming rules" of the Amazon S3 User Guide, and names of older
// buckets.
bool isBucket(kj::StringPtr name) {
  if (name.size() < 3 || name.size() > 63) return false;
  for (char c : name) {
    bool ok = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
              c == '-' || c == '.' || c == '_';
    if (!ok) return false;
  }
  return true;
}

bool isPlainValue(kj::StringPtr text) {
  for (char c : text) {
    if (c <= ' ' || c > '~') return false;
  }
  return text.size() <= kLongestName;
}

// Returns true for a store over TLS.
bool checkStore(Report& report, kj::StringPtr endpoint) {
  constexpr auto kHint = "for example https://s3.example.org"_kj;
  auto path = kj::str(kBackupPath, ".endpoint");
  auto parsed = parseEndpoint(endpoint);
  auto& url = parsed.value;
  auto origin = kj::str(url.scheme, "://");
  if (parsed.problem.size() > 0) {
    report.error(path, kj::mv(parsed.problem), kHint);
  } else if (url.scheme != "https" && url.scheme != "http") {
    report.error(path, kj::str("\"", url.scheme, "\" is not a scheme of stores"),
                 "use https:// or http://");
  } else if (!isHost(url.host)) {
    report.error(path, kj::str("\"", url.host, "\" is neither an IP address nor a DNS name"),
                 kHint);
  } else if (endpoint.slice(origin.size()).findFirst('/') != nullptr) {
    report.error(path, kj::str("nothing can follow host and port"),
                 "write the bucket under bucket, and folders under prefix");
  }
  return url.scheme == "https";
}

void checkStoresCa(Report& report, capnp::Data::Reader ca, bool tls) {
  if (ca.size() == 0) return;
  auto path = kj::str(kBackupPath, ".ca");
  if (!tls) {
    report.error(path, kj::str("only a store of https:// is checked with it"),
                 "remove it, or use https://");
    return;
  }
  KJ_IF_MAYBE (e, kj::runCatchingExceptions([&]() { pki::inspect(kj::str(ca.asChars())); })) {
    report.error(path, messageOf(*e), "use the base64 of certificates in PEM");
  }
}

void checkRecipient(Report& report, capnp::Data::Reader recipient) {
  auto path = kj::str(kBackupPath, ".encryptTo");
  if (recipient.size() == 0) return;
  if (recipient.size() > kMostCertificate) {
    report.error(path, kj::str("longer than ", kMostCertificate, " bytes"));
    return;
  }
  auto failure = kj::runCatchingExceptions(
      [&]() { CmsRecipient(kj::str(recipient.asChars()), "what it holds"); });
  KJ_IF_MAYBE (e, failure) report.error(path, messageOf(*e));
}

}  // namespace

void checkEtcdBackup(Report& report, EtcdBackup::Reader backup) {
  bool tls = false;
  if (backup.getEndpoint().size() > 0) tls = checkStore(report, backup.getEndpoint());
  checkStoresCa(report, backup.getCa(), tls);
  auto bucket = backup.getBucket();
  if (bucket.size() > 0 && !isBucket(bucket)) {
    report.error(kj::str(kBackupPath, ".bucket"), kj::str("\"", bucket, "\" is not a valid name"),
                 "use 3 to 63 letters, digits, dots, hyphens and underscores");
  }
  auto plain = [&](kj::StringPtr key, kj::StringPtr value) {
    if (isPlainValue(value)) return;
    report.error(kj::str(kBackupPath, ".", key), kj::str("not a valid value"),
                 kj::str("use at most ", kLongestName, " printable characters without blanks"));
  };
  plain("prefix", backup.getPrefix());
  plain("region", backup.getRegion());
  plain("accessKey", backup.getAccessKey());
  plain("secretKey", backup.getSecretKey());
  if (backup.getPrefix().startsWith("/")) {
    report.error(kj::str(kBackupPath, ".prefix"), kj::str("begins with a slash"),
                 "remove the slash");
  }
  auto every = kj::str(kBackupPath, ".every");
  report.duration(every, backup.getEvery(), kShortestEvery, "must be at least 10s",
                  "for example 1h");
  KJ_IF_MAYBE (time, parseDuration(backup.getEvery())) {
    if (*time > kLongestEvery)
      report.error(every, kj::str("longer than a week"), "use at most 168h");
  }
  if (backup.getKeep() < 1 || backup.getKeep() > kMostKept) {
    report.error(kj::str(kBackupPath, ".keep"), kj::str(backup.getKeep(), " is out of range"),
                 kj::str("use 1 to ", kMostKept));
  }
  checkRecipient(report, backup.getEncryptTo());
}

}  // namespace talos::config
