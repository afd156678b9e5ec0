// The methods of the gRPC API that map to one call of ours: a row each, without code.
// method-table.inc has the rows and explains an example.
//
// The table is C++ and not a constant of a schema: only this room reads it, and a change of it
// compiles one file. Every name in it is resolved against rpc/ when the table is made, so a name
// that does not exist fails each start, and the test.
#pragma once

#include <kj/vector.h>

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

}  // namespace talos::grpcapi
