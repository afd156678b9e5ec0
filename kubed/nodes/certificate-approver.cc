#include "kubed/nodes/certificate-approver.h"

#include "common/base/date.h"
#include "common/base/error.h"
#include "kubed/manifests/manifest-creation.h"

namespace talos::kubed {
namespace {

// Returns the patch that approves the request of this version, and not a later one.
kube::Json approvalOf(kj::StringPtr version, kj::StringPtr reason, kj::StringPtr message,
                      kj::Date now) {
  return {{"metadata", {{"resourceVersion", version.cStr()}}},
          {"status",
           {{"conditions", kube::Json::array({{{"type", "Approved"},
                                               {"status", "True"},
                                               {"reason", reason.cStr()},
                                               {"message", message.cStr()},
                                               {"lastUpdateTime", dateText(now).cStr()}}})}}}};
}

}  // namespace

kj::Promise<kj::Maybe<WatchReconciler::Selection>> CertificateApprover::select() {
  machineCa = adapter.machineCa();
  kubernetes = nullptr;
  auto client = adapter.client();
  KJ_IF_MAYBE (found, client.tryGet<kj::Own<SharedKube>>()) {
    if (machineCa.size() > 0) {
      kubernetes = kj::addRef(**found);
      return kj::Maybe<Selection>(Selection{.kubernetes = kj::mv(*found),
                                            .resource = kube::certificateRequests(),
                                            .fields = kj::str(fields),
                                            .keepsNone = true});
    }
  }
  return kj::Maybe<Selection>(nullptr);
}

kj::Promise<void> CertificateApprover::failed(kj::String error) {
  if (logged != error) log::warn(failure, {{"error", error}});
  logged = kj::mv(error);
  return kj::READY_NOW;
}

kj::Promise<bool> CertificateApprover::approve(SharedKube& server, kj::StringPtr name,
                                               kj::StringPtr version, kj::StringPtr reason,
                                               kj::StringPtr message) {
  bool done = true;
  auto approval = approvalOf(version, reason, message, clock.now());
  co_await (*server)
      .patch(kube::Patch::kMerge, kube::certificateRequests(), "", name, approval, kFieldManager,
             "approval")
      .ignoreResult()
      .catch_([&](kj::Exception&& e) {
        done = false;
        if (kindOf(e) != ErrorKind::kConflict && kindOf(e) != ErrorKind::kNotFound) {
          kj::throwFatalException(kj::mv(e));
        }
      });
  co_return done;
}

}  // namespace talos::kubed
