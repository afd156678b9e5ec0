// The records of issued certificates: IssuedCertificates/<serial> in machined's store, and a log
// line each, as far as one holder does not ask for more than a node does
// (common/base/line-limit.h).
//
// Append-only: a record is never changed, and is removed by the rules of certificate-expiry.h, by
// which a certificate can be refused too (ResourceExhausted). It is in the store before the caller
// gets its certificate: after a crash at any line there is no certificate without a record. There
// may be a record whose certificate nobody received.
#pragma once

#include "common/base/line-limit.h"
#include "common/wire/store-client.h"
#include "trustd/certificate-expiry.h"
#include "trustd/issuer.h"

namespace talos::trustd {

constexpr auto kKeepPatience = 5 * kj::SECONDS;

class Records {
 public:
  // All must outlive it.
  Records(StoreClient& store, kj::Timer& timer, const kj::Clock& clock, Expiry::Limits limits = {});
  KJ_DISALLOW_COPY_AND_MOVE(Records);

  // What is there from before, into the issuer's name book. Tries until the store answers.
  kj::Promise<void> recall(Issuer& issuer);
  // Resolves when the store has it; ResourceExhausted when its holder has too many, Unavailable
  // when the store does not have it within kKeepPatience.
  kj::Promise<void> keep(const Record& record);

 private:
  StoreClient& store;
  kj::Timer& timer;
  const kj::Clock& clock;
  Expiry expiry;
  LineLimit lines;                   // about those who get certificates
  kj::TreeMap<Ip, size_t> underWay;  // bytes of records that are being written, by holder
  size_t allUnderWay = 0;
  bool cleaning = false;
  kj::Promise<void> cleanup = nullptr, regularly;

  class Writing;
  kj::Promise<void> recallOnce(Issuer& issuer);
  void clean();
  kj::Promise<void> removeDue();
  kj::Promise<void> cleanRegularly();
};

}  // namespace talos::trustd
