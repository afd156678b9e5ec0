#include "common/health/service-state.h"

namespace talos {

kj::StringPtr serviceStateName(rpc::ServiceState state) {
  switch (state) {
    case rpc::ServiceState::INITIALIZED:
      return "Initialized";
    case rpc::ServiceState::PREPARING:
      return "Preparing";
    case rpc::ServiceState::WAITING:
      return "Waiting";
    case rpc::ServiceState::RUNNING:
      return "Running";
    case rpc::ServiceState::STOPPING:
      return "Stopping";
    case rpc::ServiceState::FINISHED:
      return "Finished";
    case rpc::ServiceState::FAILED:
      return "Failed";
    case rpc::ServiceState::SKIPPED:
      return "Skipped";
  }
  return "Unknown";
}

}  // namespace talos
