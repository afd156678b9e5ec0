// Writes the records of issued certificates: IssuedCertificates/<serial> in machined's store, and a
// log line for each, in a bounded number for each holder (common/wire/log-line-limit.h).
//
// Append-only: a record is never changed, and is removed by the rules of issuance-quota.h,
// which can also refuse a certificate (ResourceExhausted). A record is in the store before its
// caller gets the certificate: after a crash at any line no certificate is without a record. The
// certificate of a record may never have reached its caller.
//
// Bounded at every moment: a caller gets its answer only after the records that its own record
// displaced have been removed. So the store exceeds the limits of issuance-quota.h by the
// records in progress at most, and these have limits too. Otherwise a holder of the token that adds
// records faster than they can be removed would fill the store, and no machine could renew.
#pragma once

#include <map>

#include "common/wire/log-line-limit.h"
#include "common/wire/store-client.h"
#include "rpc/secret-resources.capnp.h"
#include "trustd/issuance-quota.h"
#include "trustd/issuer.h"

namespace talos::trustd {

constexpr auto kStoreTimeout = 5 * kj::SECONDS;

class Records final : private kj::TaskSet::ErrorHandler {
 public:
  // All arguments must outlive it.
  Records(StoreClient& store, kj::Timer& timer, const kj::Clock& clock,
          IssuanceQuota::Limits limits = {});
  KJ_DISALLOW_COPY_AND_MOVE(Records);

  // Loads the stored records into the issuer's name book. Retries until the store answers.
  kj::Promise<void> load(Issuer& issuer);
  // Resolves when the store has the record, and has removed the records that it displaced;
  // continues when its promise is dropped. ResourceExhausted if its holder has too many records;
  // Unavailable if the store does not have the record within kStoreTimeout, or too many are in
  // progress.
  kj::Promise<void> keep(Record record);

 private:
  StoreClient& store;
  kj::Timer& timer;
  const kj::Clock& clock;
  const IssuanceQuota::Limits limits;
  IssuanceQuota quota;
  LineLimit lines;  // for lines about issued certificates
  struct Bytes {
    size_t unwritten = 0, all = 0;
  };
  std::map<Ip, Bytes> inProgress;  // by holder
  Bytes allInProgress;
  bool cleaning = false;
  kj::TaskSet tasks;  // last member: the tasks use the others

  class InProgress;
  kj::Promise<void> loadOnce(Issuer& issuer);
  kj::Promise<void> write(const kj::String& serial, rpc::IssuedCertificateSpec::Reader spec);
  kj::Promise<void> writeAndMakeRoom(Record record, kj::Own<capnp::MallocMessageBuilder> message,
                                     kj::Own<InProgress> progress);
  kj::Promise<void> removeDue(size_t bytes);
  void clean();
  kj::Promise<void> cleanRegularly();
  void taskFailed(kj::Exception&& e) override;
};

}  // namespace talos::trustd
