#include "trustd/issuance-records.h"

#include <openssl/sha.h>

#include <algorithm>

#include "common/base/date.h"
#include "common/base/error.h"
#include "common/base/fill-list.h"
#include "common/base/log.h"
#include "common/base/within.h"
#include "common/wire/rpc-server.h"

namespace talos::trustd {
namespace {

constexpr auto kLoadTimeout = 20 * kj::SECONDS, kLoadPause = 500 * kj::MILLISECONDS;
constexpr auto kCleaning = 10 * kj::MINUTES;
constexpr unsigned kRecordWords = 96;    // an estimate; messages grow if necessary
constexpr unsigned kMetadataWords = 40;  // words that the store adds: type, id, owner, times

void fill(rpc::IssuedCertificateSpec::Builder spec, const Record& record) {
  spec.setCaller(record.caller.toString());
  fillTexts(spec.initDnsNames(record.dnsNames.size()), record.dnsNames);
  fillTexts(spec.initAddresses(record.addresses.size()), record.addresses);
  spec.setIssued(dateText(record.issued));
  spec.setNotBefore(dateText(record.notBefore));
  spec.setNotAfter(dateText(record.notAfter));
  spec.setFingerprint(record.fingerprint);
  spec.setJoinToken(record.joinToken);
}

// Returns nullptr for resources that this program has not written.
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
IssuanceQuota::Subject subjectOf(const Record& record) {
  kj::Vector<kj::StringPtr> texts;
  for (auto& name : record.dnsNames) texts.add(name);
  for (auto& address : record.addresses) texts.add(address);
  std::sort(texts.begin(), texts.end());
  auto all = kj::strArray(texts, "\n");
  kj::byte digest[SHA256_DIGEST_LENGTH];
  SHA256(all.asBytes().begin(), all.size(), digest);
  IssuanceQuota::Subject subject;
  std::copy(digest, digest + subject.size(), subject.begin());
  return subject;
}

IssuanceQuota::Record counted(const Record& record, size_t words) {
  return {.serial = kj::str(record.serial),
          .end = record.notAfter,
          .holder = holderOf(record.caller),
          .subject = subjectOf(record),
          .bytes = (words + kMetadataWords) * sizeof(capnp::word)};
}

}  // namespace

// Counts a record until it is written, and until the records that it displaced are removed.
class Records::InProgress {
 public:
  InProgress(Records& records, IssuanceQuota::Record given)
      : records(records), entry(kj::mv(given)) {
    for (auto count : {&records.allInProgress, &records.inProgress[entry.holder]}) {
      count->unwritten += entry.bytes;
      count->all += entry.bytes;
    }
  }
  ~InProgress() noexcept(false) {
    written();
    auto& mine = records.inProgress.at(entry.holder);
    for (auto count : {&records.allInProgress, &mine}) count->all -= entry.bytes;
    if (mine.all == 0) records.inProgress.erase(entry.holder);
  }
  KJ_DISALLOW_COPY_AND_MOVE(InProgress);

  // Called also after a failure: the record may be in the store.
  void written() {
    if (isWritten) return;
    isWritten = true;
    for (auto count : {&records.allInProgress, &records.inProgress.at(entry.holder)}) {
      count->unwritten -= entry.bytes;
    }
    records.quota.add(entry);
  }

 private:
  Records& records;

 public:
  const IssuanceQuota::Record entry;

 private:
  bool isWritten = false;
};

Records::Records(StoreClient& store, kj::Timer& timer, const kj::Clock& clock,
                 IssuanceQuota::Limits limits)
    : store(store),
      timer(timer),
      clock(clock),
      limits(limits),
      quota(limits),
      lines(timer),
      tasks(*this) {
  tasks.add(cleanRegularly());
}

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
  if (quota.size() > 0)
    log::info("records of issued certificates loaded", {{"count", quota.size()}});
  clean();
}

kj::Promise<void> Records::loadOnce(Issuer& issuer) {
  return store.visit<rpc::IssuedCertificateSpec>([this, &issuer](auto stored) {
    KJ_IF_MAYBE (record, recordOf(stored)) {
      if (quota.add(counted(*record, stored.totalSize().wordCount))) issuer.remember(*record);
    }
  });
}

kj::Promise<void> Records::keep(Record record) {
  auto message = kj::heap<capnp::MallocMessageBuilder>(kRecordWords);
  auto spec = message->initRoot<rpc::IssuedCertificateSpec>();
  fill(spec, record);
  auto entry = counted(record, spec.asReader().totalSize().wordCount);
  auto known = inProgress.find(entry.holder);
  auto mine = known == inProgress.end() ? Bytes{} : known->second;
  bool many = mine.all + entry.bytes > limits.inProgressOfHolder;
  if (many || allInProgress.all + entry.bytes > limits.inProgress) {
    auto whose = many ? kj::str(" for ", entry.holder.toString()) : kj::str();
    fail(ErrorKind::kUnavailable,
         kj::str("too many certificates", whose, " are being recorded; retry"));
  }
  KJ_IF_MAYBE (error, quota.quotaError(entry, mine.unwritten, allInProgress.unwritten)) {
    fail(ErrorKind::kResourceExhausted, *error);
  }
  auto progress = kj::heap<InProgress>(*this, kj::mv(entry));
  // Continues if the caller disconnects, so that the displaced records are not left for others to
  // remove.
  auto work = writeAndMakeRoom(kj::mv(record), kj::mv(message), kj::mv(progress)).fork();
  tasks.add(work.addBranch().catch_([](kj::Exception&&) {}));  // The caller gets the error.
  return work.addBranch();
}

kj::Promise<void> Records::write(const kj::String& serial,
                                 rpc::IssuedCertificateSpec::Reader spec) {
  kj::Maybe<kj::String> error;
  co_await within(timer, kStoreTimeout, store.create<rpc::IssuedCertificateSpec>(serial, spec),
                  kj::str("no answer within ", kStoreTimeout / kj::SECONDS, " s"))
      .catch_([&](kj::Exception&& e) { error = messageOf(e); });
  KJ_IF_MAYBE (e, error) {
    log::warn("cannot write the record of a certificate; it is not issued",
              {{"serial", serial}, {"error", *e}});
    fail(ErrorKind::kUnavailable,
         kj::str("cannot write the record of the certificate: ", *e, "; retry"));
  }
}

kj::Promise<void> Records::writeAndMakeRoom(Record record,
                                            kj::Own<capnp::MallocMessageBuilder> message,
                                            kj::Own<InProgress> progress) {
  kj::Maybe<kj::Exception> failure;
  co_await write(record.serial, message->getRoot<rpc::IssuedCertificateSpec>().asReader())
      .catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
  progress->written();
  co_await removeDue(progress->entry.bytes)
      .then([this] { clean(); }, [this](kj::Exception&& e) { taskFailed(kj::mv(e)); });
  KJ_IF_MAYBE (e, failure) {
    kj::throwFatalException(kj::mv(*e));
  }
  // Endless renewals must not displace other lines of the log; the records are complete.
  if (!lines.admits(progress->entry.holder.toString())) co_return;
  log::info(record.renewal ? "certificate renewed, for who had it: the token is another"
                           : "certificate issued",
            {{"peer", record.caller.toString()},
             {"serial", record.serial},
             {"names", kj::strArray(record.dnsNames, ",")},
             {"addresses", kj::strArray(record.addresses, ",")},
             {"until", dateText(record.notAfter)}});
}

// Removes due records one after the other, until they make up `bytes`. A record that does not exist
// any more is not an error.
kj::Promise<void> Records::removeDue(size_t bytes) {
  for (size_t removed = 0; removed < bytes;) {
    auto next = quota.takeDue(clock.now());
    if (next == nullptr) co_return;
    auto& due = KJ_ASSERT_NONNULL(next);
    kj::Maybe<kj::Exception> failure;
    co_await within(timer, kStoreTimeout, store.destroy<rpc::IssuedCertificateSpec>(due.serial),
                    kj::str("no answer within ", kStoreTimeout / kj::SECONDS, " s"))
        .catch_([&](kj::Exception&& e) { failure = kj::mv(e); });
    KJ_IF_MAYBE (e, failure) {
      if (kindOf(*e) != ErrorKind::kNotFound) {
        quota.add(due);  // The next round tries again.
        kj::throwFatalException(kj::mv(*e));
      }
    }
    removed += due.bytes;
  }
}

// Removes all due records.
void Records::clean() {
  if (cleaning) return;
  cleaning = true;
  tasks.add(removeDue(kj::maxValue).attach(kj::defer([this] { cleaning = false; })));
}

void Records::taskFailed(kj::Exception&& e) {
  log::warn("cannot remove the record of a certificate; retrying", {{"error", messageOf(e)}});
}

kj::Promise<void> Records::cleanRegularly() {
  for (;;) {
    co_await timer.afterDelay(kCleaning);
    clean();
  }
}

}  // namespace talos::trustd
