// The methods of the gRPC API: those that map to one call of ours are a row each, without code.
// method-table.inc has the rows and explains an example.
//
// The table is C++ and not a constant of a schema: only this room reads it, and a change of it
// compiles one file. Every name in it is resolved against rpc/ when the table is made, so a name
// that does not exist fails each start, and the test.
#pragma once

#include <kj/vector.h>

#include "apid/grpc/answer-output.h"
#include "apid/grpc/grpc-method.h"

namespace talos::grpcapi {

struct MethodRow {
  const char* path;
  Answer answer;
  const char* call;      // "machine.mounts": a method of Node, and a method of its result
  const char* in = "";   // shape (message-shape.h) of the request: the call's parameters
  const char* out = "";  // shape of the answer: its results; with `items`, each element of the list
  // "write.bytes": a stream. Names the method of the call's sink and its parameter, each element of
  // which is a message; for Data the message is `2: bytes`. "write.bytes~lines": a message for each
  // line. "images": a message for each element of a list in the results.
  const char* items = "";
  bool conflictMeansExists = false;
};

kj::Own<const Method> methodOf(const MethodRow& row);
kj::Vector<Entry> tableEntries();

class ResourceMessages;

// Returns all methods of the gRPC API: those of the table, and those implemented in code.
// `messages` outlives them.
kj::Vector<Entry> allMethods(const ResourceMessages& messages);

// Each of these functions adds the methods of one file.
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
