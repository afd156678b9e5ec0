#include "trustd/issuance-records.h"

#include <openssl/sha.h>

#include <algorithm>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "common/wire/rpc-server.h"
#include "rpc/secret-resources.capnp.h"

namespace talos::trustd {
namespace {

constexpr auto kLoadTimeout = 20 * kj::SECONDS, kLoadPause = 500 * kj::MILLISECONDS;
constexpr auto kCleaning = 10 * kj::MINUTES;
constexpr unsigned kRecordWords = 96;    // an estimate; a message grows when it has to
constexpr unsigned kMetadataWords = 40;  // added by the store: type, id, owner, times

void setAll(capnp::List<capnp::Text>::Builder out, kj::ArrayPtr<const kj::String> texts) {
  for (auto i : kj::indices(texts)) out.set(i, texts[i]);
}

void fill(rpc::IssuedCertificateSpec::Builder spec, const Record& record) {
  spec.setCaller(record.caller.toString());
  setAll(spec.initDnsNames(record.dnsNames.size()), record.dnsNames);
  setAll(spec.initAddresses(record.addresses.size()), record.addresses);
  spec.setIssued(dateText(record.issued));
  spec.setNotBefore(dateText(record.notBefore));
  spec.setNotAfter(dateText(record.notAfter));
  spec.setFingerprint(record.fingerprint);
}

// None for resources that this program has not written.
kj::Maybe<Record> recordOf(ResourceOf<rpc::IssuedCertificateSpec> spec) {
  Record record;
  record.serial = kj::str(spec.id());
  record.caller = KJ_UNWRAP_OR_RETURN(Ip::parse(spec.getCaller()), nullptr);
  record.notBefore = KJ_UNWRAP_OR_RETURN(parseDate(spec.getNotBefore()), nullptr);
  record.notAfter = KJ_UNWRAP_OR_RETURN(parseDate(spec.getNotAfter()), nullptr);
  for (auto name : spec.getDnsNames()) record.dnsNames.add(kj::str(name));
  for (auto address : spec.getAddresses()) record.addresses.add(kj::str(address));
  return kj::mv(record);
}

// The digest of the names and addresses of a certificate.
Expiry::Subject subjectOf(const Record& record) {
  kj::Vector<kj::StringPtr> texts;
  for (auto& name : record.dnsNames) texts.add(name);
  for (auto& address : record.addresses) texts.add(address);
  std::sort(texts.begin(), texts.end());
  auto all = kj::strArray(texts, "\n");
  kj::byte digest[SHA256_DIGEST_LENGTH];
  SHA256(all.asBytes().begin(), all.size(), digest);
  Expiry::Subject subject;
  std::copy(digest, digest + subject.size(), subject.begin());
  return subject;
}

Expiry::Record counted(const Record& record, size_t words) {
  return {.serial = kj::str(record.serial),
          .end = record.notAfter,
          .holder = holderOf(record.caller),
          .subject = subjectOf(record),
          .bytes = (words + kMetadataWords) * sizeof(capnp::word)};
}

}  // namespace

// Counts a record while it is being written.
class Records::Writing {
 public:
  Writing(Records& records, const Expiry::Record& record)
      : records(records), holder(record.holder), bytes(record.bytes) {
    records.allUnderWay += bytes;
    records.underWay.upsert(holder, bytes, [](size_t& old, size_t more) { old += more; });
  }
  ~Writing() noexcept(false) {
    records.allUnderWay -= bytes;
    auto& mine = KJ_ASSERT_NONNULL(records.underWay.find(holder));
    mine -= bytes;
    if (mine == 0) records.underWay.erase(holder);
  }
  KJ_DISALLOW_COPY_AND_MOVE(Writing);

 private:
  Records& records;
  const Ip holder;
  const size_t bytes;
};

Records::Records(StoreClient& store, kj::Timer& timer, const kj::Clock& clock,
                 Expiry::Limits limits)
    : store(store),
      timer(timer),
      clock(clock),
      expiry(limits),
      lines(timer),
      regularly(cleanRegularly().eagerlyEvaluate(nullptr)) {}

kj::Promise<void> Records::load(Issuer& issuer) {
  kj::String lastError;
  for (;;) {
    kj::Maybe<kj::String> error;
    co_await within(timer, kLoadTimeout, loadOnce(issuer),
                    kj::str("no answer within ", kLoadTimeout / kj::SECONDS, " s"))
        .catch_([&](kj::Exception&& e) { error = messageOf(e); });
    KJ_IF_MAYBE (e, error) {
      if (*e != lastError)
        log::warn("cannot read the records of issued certificates; retrying", {{"error", *e}});
      lastError = kj::mv(*e);
    } else {
      break;
    }
    co_await timer.afterDelay(kLoadPause);
  }
  if (expiry.size() > 0)
    log::info("records of issued certificates loaded", {{"count", expiry.size()}});
  clean();
}

kj::Promise<void> Records::loadOnce(Issuer& issuer) {
  return store.visit<rpc::IssuedCertificateSpec>([this, &issuer](auto stored) {
    KJ_IF_MAYBE (record, recordOf(stored)) {
      if (expiry.add(counted(*record, stored.totalSize().wordCount))) issuer.remember(*record);
    }
  });
}

kj::Promise<void> Records::keep(const Record& record) {
  auto serial = kj::str(record.serial), peer = record.caller.toString(),
       names = kj::strArray(record.dnsNames, ","), addresses = kj::strArray(record.addresses, ",");
  auto end = record.notAfter;
  capnp::MallocMessageBuilder message(kRecordWords);
  auto spec = message.initRoot<rpc::IssuedCertificateSpec>();
  fill(spec, record);
  auto entry = counted(record, spec.asReader().totalSize().wordCount);
  auto mine = underWay.find(entry.holder).map([](size_t& n) { return n; }).orDefault(0);
  KJ_IF_MAYBE (quota, expiry.quotaError(entry, mine, allUnderWay)) {
    fail(ErrorKind::kResourceExhausted, *quota);
  }
  Writing writing(*this, entry);
  // In any case the record may be in the store, also when its caller disconnects.
  KJ_DEFER({
    expiry.add(entry);
    clean();
  });
  kj::Maybe<kj::String> error;
  co_await within(timer, kStoreTimeout,
                  store.create<rpc::IssuedCertificateSpec>(serial, spec.asReader()),
                  kj::str("no answer within ", kStoreTimeout / kj::SECONDS, " s"))
      .catch_([&](kj::Exception&& e) { error = messageOf(e); });
  KJ_IF_MAYBE (e, error) {
    log::warn("cannot write the record of a certificate; it is not issued",
              {{"serial", serial}, {"error", *e}});
    fail(ErrorKind::kUnavailable,
         kj::str("cannot write the record of the certificate: ", *e, "; retry"));
  }
  // Endless renewals must not displace other lines of the log; the records are complete.
  if (!lines.admits(entry.holder.toString())) co_return;
  log::info("certificate issued", {{"peer", peer},
                                   {"serial", serial},
                                   {"names", names},
                                   {"addresses", addresses},
                                   {"until", dateText(end)}});
}

void Records::clean() {
  if (cleaning) return;
  cleaning = true;
  cleanup = removeDue().eagerlyEvaluate([this](kj::Exception&& e) {
    cleaning = false;
    log::warn("cannot remove the record of a certificate; retrying", {{"error", messageOf(e)}});
  });
}

// Removes records one after the other. One that does not exist any more is not an error.
kj::Promise<void> Records::removeDue() {
  for (;;) {
    KJ_IF_MAYBE (due, expiry.takeDue(clock.now())) {
      kj::Maybe<kj::Exception> failure;
      co_await within(timer, kStoreTimeout, store.destroy<rpc::IssuedCertificateSpec>(due->serial),
                      kj::str("no answer within ", kStoreTimeout / kj::SECONDS, " s"))
          .catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
      KJ_IF_MAYBE (e, failure) {
        if (kindOf(*e) == ErrorKind::kNotFound) continue;
        expiry.add(*due);  // the next round tries again
        kj::throwFatalException(kj::mv(*e));
      }
    } else {
      break;
    }
  }
  cleaning = false;
}

kj::Promise<void> Records::cleanRegularly() {
  for (;;) {
    co_await timer.afterDelay(kCleaning);
    clean();
  }
}

}  // namespace talos::trustd
