// The variables that the node sets itself in the environment of its services.
//
// They take precedence over machine.env (machined/system/service-environment.h), so a config that
// sets one of them gets a warning. Their values are in machined/brain/daemon-table.cc, whose test
// compares the names with this list.
#pragma once

#include <kj/string.h>

#include "common/base/node-layout.h"

namespace talos {

struct ServiceVariable {
  kj::StringPtr name;
  kj::StringPtr service;  // "": all services that are programs of this system
};

constexpr ServiceVariable kServiceVariables[] = {
    {"PATH"_kj, "cri"_kj},
    {"PATH"_kj, "etcd"_kj},
    {"PATH"_kj, "kubelet"_kj},
    {"HTTP2_READ_IDLE_TIMEOUT_SECONDS"_kj, "kubelet"_kj},
    {"HTTP2_PING_TIMEOUT_SECONDS"_kj, "kubelet"_kj},
    {"DBUS_SYSTEM_BUS_ADDRESS"_kj, "kubelet"_kj},
    {kListenTcpVariable, ""_kj},
    {kListenUnixVariable, ""_kj},
    {kKeepingVariable, ""_kj},
    {kKeptVariable, ""_kj},
    {"TALOS_SERVICE_PAGE_FD"_kj, ""_kj},  // common/crash/service-page.h
    {kStoreVariable, ""_kj},
    {kStateVariable, ""_kj},
};

// Returns true if the node sets this variable for the service.
inline bool isSetByNode(kj::StringPtr service, kj::StringPtr variable) {
  for (auto& each : kServiceVariables) {
    if (each.name != variable) continue;
    if (each.service.size() == 0 || each.service == service) return true;
  }
  return false;
}

}  // namespace talos
