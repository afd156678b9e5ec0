#include "machined/config/apply-operation.h"

#include "common/base/error.h"
#include "machined/resources/store-records.h"
#include "rpc/machine-resources.capnp.h"

namespace talos::machined {
namespace {

using Spec = rpc::OperationSpec;

constexpr kj::StringPtr kRunning = "running"_kj;

struct Record {
  kj::String what, mode, step;
  uint32_t steps;
  uint64_t number;
};

kj::Maybe<Record> running(Store& store) {
  KJ_IF_MAYBE (stored, store.tryGet<Spec>(kApplyOperation)) {
    if (stored->getState() != kRunning) return nullptr;
    return Record{kj::str(stored->getWhat()), kj::str(stored->getMode()),
                  kj::str(stored->getStep()), stored->getSteps(), stored->getNumber()};
  }
  return nullptr;
}

void put(Store& store, const Record& record, kj::StringPtr state, kj::StringPtr error) {
  putRecord<Spec>(store, kApplyOperation, [&](Spec::Builder out) {
    out.setWhat(record.what);
    out.setState(state);
    out.setStep(record.step);
    out.setSteps(record.steps);
    out.setError(error);
    out.setNumber(record.number);
    out.setMode(record.mode);
  });
}

}  // namespace

uint64_t ApplyOperation::begin(kj::StringPtr what, kj::StringPtr mode, uint64_t number) {
  if (number == 0) {
    KJ_IF_MAYBE (stored, store.tryGet<Spec>(kApplyOperation)) number = stored->getNumber();
    number = kj::max(number + 1, uint64_t(1));
  }
  put(store, Record{kj::str(what), kj::str(mode), kj::str(), 0, number}, kRunning, "");
  return number;
}

void ApplyOperation::step(kj::StringPtr what) {
  KJ_IF_MAYBE (record, running(store)) {
    record->step = kj::str(what);
    ++record->steps;
    put(store, *record, kRunning, "");
  }
}

void ApplyOperation::end(const kj::Maybe<kj::Exception>& failure) {
  KJ_IF_MAYBE (record, running(store)) {
    KJ_IF_MAYBE (e, failure) {
      put(store, *record, "failed", messageOf(*e));
    } else {
      put(store, *record, "done", "");
    }
  }
}

kj::Promise<kj::Maybe<kj::Exception>> ApplyOperation::record(kj::Promise<void> work) {
  return work
      .then([]() -> kj::Maybe<kj::Exception> { return nullptr; },
            [](kj::Exception&& e) -> kj::Maybe<kj::Exception> { return kj::mv(e); })
      .then([this](kj::Maybe<kj::Exception> failure) {
        end(failure);
        return failure;
      });
}

}  // namespace talos::machined
