#include "trustd/issuance-records.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "common/wire/rpc-server.h"
#include "rpc/types.capnp.h"

namespace talos::trustd {
namespace {

constexpr auto kRecallPatience = 20 * kj::SECONDS, kRecallPause = 500 * kj::MILLISECONDS;
constexpr auto kCleaning = 10 * kj::MINUTES;
constexpr unsigned kRecordWords = 96;  // of a usual one; a message grows when it has to

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
  return kj::mv(record);
}

}  // namespace

Records::Records(StoreClient& store, kj::Timer& timer, const kj::Clock& clock, size_t most)
    : store(store),
      timer(timer),
      clock(clock),
      expiry(most),
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
      if (expiry.add(record->serial, record->notAfter)) issuer.remember(*record);
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
  // Whatever becomes of this, the record may be there: when its caller hangs up, too.
  KJ_DEFER({
    expiry.add(serial, end);
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
        expiry.add(due->serial, due->end);  // the next round tries again
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
