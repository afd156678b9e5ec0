// Publishes the resource Operations/apply-config: the progress and the outcome of an apply that
// continues after its caller was answered, because it changes keys of encrypted volumes, or whose
// caller chose its number. Its state is running, then done or failed.
//
// Keeps no state: a new brain finds the record of its predecessor in the store, and continues the
// pending config (held-config.h) and this record. The record is finished before the pending
// config is dropped, so that a waiting caller always sees the end.
#pragma once

#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kApplyOperation = "apply-config"_kj;

class ApplyOperation {
 public:
  explicit ApplyOperation(Store& store) : store(store) {}

  // Returns the operation's number, never 0: `number`, or if that is 0 the next one. `mode` is the
  // user's spelling.
  uint64_t begin(kj::StringPtr what, kj::StringPtr mode, uint64_t number);
  // Both do nothing if no operation is running.
  void step(kj::StringPtr what);
  void end(const kj::Maybe<kj::Exception>& failure);
  // Ends the operation with the outcome of `work`; resolves to its failure.
  kj::Promise<kj::Maybe<kj::Exception>> record(kj::Promise<void> work);

 private:
  Store& store;
};

}  // namespace talos::machined
