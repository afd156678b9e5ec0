// All methods of the original's API that a node can answer: the table's, and those with code.
//
// A maker of those with code knows which answers its methods give; each is in the file of its name.
#pragma once

#include <kj/vector.h>

#include "apid/grpc/grpc-method.h"

namespace talos::edge {

class ResourceMessages;

// `messages` outlives them.
kj::Vector<Entry> allMethods(const ResourceMessages& messages);

void addByNamespace(kj::Vector<Entry>& all);  // Logs, Stats, Containers, Restart
void addCosi(kj::Vector<Entry>& all, const ResourceMessages& messages);
void addResourceService(kj::Vector<Entry>& all, const ResourceMessages& messages);

void addEvents(kj::Vector<Entry>& all);
void addFacts(kj::Vector<Entry>& all);          // Memory, Netstat, counters, dependencies
void addTransfers(kj::Vector<Entry>& all);      // Copy, Kubeconfig
void addConfiguration(kj::Vector<Entry>& all);  // and Reset
void addBootstrap(kj::Vector<Entry>& all);      // and EtcdRecover
void addHealth(kj::Vector<Entry>& all);         // HealthCheck

}  // namespace talos::edge
