// Writes the records of issued certificates: IssuedCertificates/<serial> in machined's store, and a
// log line for each, in a bounded number for each holder (common/wire/log-line-limit.h).
//
// Append-only: a record is never changed, and is removed by the rules of certificate-expiry.h,
// which can also refuse a certificate (ResourceExhausted). A record is in the store before its
// caller gets the certificate: after a crash at any line there is no certificate without a record.
// There may be a record whose certificate nobody received.
#pragma once

#include "common/wire/log-line-limit.h"
#include "common/wire/store-client.h"
#include "trustd/certificate-expiry.h"
#include "trustd/issuer.h"

namespace talos::trustd {

constexpr auto kStoreTimeout = 5 * kj::SECONDS;

class Records {
 public:
  // All must outlive it.
  Records(StoreClient& store, kj::Timer& timer, const kj::Clock& clock, Expiry::Limits limits = {});
  KJ_DISALLOW_COPY_AND_MOVE(Records);

  // Loads the stored records into the issuer's name book. Retries until the store answers.
  kj::Promise<void> load(Issuer& issuer);
  // Resolves when the store has it; ResourceExhausted when its holder has too many, Unavailable
  // when the store does not have it within kStoreTimeout.
  kj::Promise<void> keep(const Record& record);

 private:
  StoreClient& store;
  kj::Timer& timer;
  const kj::Clock& clock;
  Expiry expiry;
  LineLimit lines;                   // about issued certificates
  kj::TreeMap<Ip, size_t> underWay;  // bytes of records that are being written, by holder
  size_t allUnderWay = 0;
  bool cleaning = false;
  kj::Promise<void> cleanup = nullptr, regularly;

  class Writing;
  kj::Promise<void> loadOnce(Issuer& issuer);
  void clean();
  kj::Promise<void> removeDue();
  kj::Promise<void> cleanRegularly();
};

}  // namespace talos::trustd
