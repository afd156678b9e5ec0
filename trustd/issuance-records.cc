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

constexpr auto kRecallPatience = 20 * kj::SECONDS, kRecallPause = 500 * kj::MILLISECONDS;
constexpr auto kCleaning = 10 * kj::MINUTES;
constexpr unsigned kRecordWords = 96;    // of a usual one; a message grows when it has to
constexpr unsigned kMetadataWords = 40;  // that the store adds: type, id, owner, times

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

// None for what this program has not written.
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

// Of what this certificate says.
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
  return {kj::str(record.serial), record.notAfter, holderOf(record.caller), subjectOf(record),
          (words + kMetadataWords) * sizeof(capnp::word)};
}

}  // namespace

// A record that is counted as long as it is being written.
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

kj::Promise<void> Records::recall(Issuer& issuer) {
  kj::String said;
  for (;;) {
    kj::Maybe<kj::String> reason;
    co_await within(timer, kRecallPatience, recallOnce(issuer),
                    kj::str("no answer within ", kRecallPatience / kj::SECONDS, " s"))
        .catch_([&](kj::Exception&& e) { reason = messageOf(e); });
    KJ_IF_MAYBE (r, reason) {
      if (*r != said)
        log::warn("cannot read the records of issued certificates; retrying", {{"error", *r}});
      said = kj::mv(*r);
    } else {
      break;
    }
    co_await timer.afterDelay(kRecallPause);
  }
  if (expiry.size() > 0)
    log::info("records of issued certificates loaded", {{"count", expiry.size()}});
  clean();
}

kj::Promise<void> Records::recallOnce(Issuer& issuer) {
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
  KJ_IF_MAYBE (why, expiry.whyNoRoom(entry, mine, allUnderWay)) {
    fail(ErrorKind::kResourceExhausted, *why);
  }
  Writing writing(*this, entry);
  // Whatever becomes of this, the record may be there: when its caller hangs up, too.
  KJ_DEFER({
    expiry.add(entry);
    clean();
  });
  kj::Maybe<kj::String> reason;
  co_await within(timer, kKeepPatience,
                  store.create<rpc::IssuedCertificateSpec>(serial, spec.asReader()),
                  kj::str("no answer within ", kKeepPatience / kj::SECONDS, " s"))
      .catch_([&](kj::Exception&& e) { reason = messageOf(e); });
  KJ_IF_MAYBE (r, reason) {
    log::warn("cannot write the record of a certificate; it is not issued",
              {{"serial", serial}, {"error", *r}});
    fail(ErrorKind::kUnavailable,
         kj::str("cannot write the record of the certificate: ", *r, "; retry"));
  }
  // Whoever renews without end does not wash out what else is in the log; the record says the same.
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

// One after the other: there is no hurry. One that is gone already is no error.
kj::Promise<void> Records::removeDue() {
  for (;;) {
    KJ_IF_MAYBE (due, expiry.takeDue(clock.now())) {
      kj::Maybe<kj::Exception> failure;
      co_await within(timer, kKeepPatience, store.destroy<rpc::IssuedCertificateSpec>(due->serial),
                      kj::str("no answer within ", kKeepPatience / kj::SECONDS, " s"))
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
