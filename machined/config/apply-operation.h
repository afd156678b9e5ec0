// The resource Operations/apply-config: a config that is being applied after its caller was
// answered, since it changes keys of encrypted volumes. It is running, then done or failed, and
// says which step it is at.
//
// Nothing is remembered here: a new brain finds the record of its predecessor in the store, goes on
// with the pending config (pending-config.h), and so with this record. It is at its end before the
// pending config is dropped, so a caller that waits is told an end in any case.
#pragma once

#include "machined/resources/store.h"

namespace talos::machined {

constexpr kj::StringPtr kApplyOperation = "apply-config"_kj;

class ApplyOperation {
 public:
  explicit ApplyOperation(Store& store) : store(store) {}

  uint64_t begin(kj::StringPtr what);  // its number, never 0
  // Nothing, when none is running.
  void step(kj::StringPtr what);
  void end(const kj::Maybe<kj::Exception>& failure);

 private:
  Store& store;
};

}  // namespace talos::machined
