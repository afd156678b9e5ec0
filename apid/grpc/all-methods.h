// All methods of the gRPC API: those of the method table, and those implemented in code.
//
// Each function adds the methods of one file.
#pragma once

#include <kj/vector.h>

#include "apid/grpc/answer-output.h"
#include "apid/grpc/grpc-method.h"

namespace talos::grpcapi {

class ResourceMessages;

// `messages` outlives the methods.
kj::Vector<Entry> allMethods(const ResourceMessages& messages);

void addByNamespace(kj::Vector<Entry>& all);  // Logs, Stats, Containers, Restart
void addCosi(kj::Vector<Entry>& all, const ResourceMessages& messages);
void addResourceService(kj::Vector<Entry>& all, const ResourceMessages& messages);

void addEvents(kj::Vector<Entry>& all);
void addFacts(kj::Vector<Entry>& all);          // Memory, Netstat, counters, dependencies
void addTransfers(kj::Vector<Entry>& all);      // Copy, Kubeconfig
void addConfiguration(kj::Vector<Entry>& all);  // configuration methods and Reset
void addBootstrap(kj::Vector<Entry>& all);      // Bootstrap and EtcdRecover
void addHealth(kj::Vector<Entry>& all);         // HealthCheck

}  // namespace talos::grpcapi
