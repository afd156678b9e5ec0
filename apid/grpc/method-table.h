// The methods of the original's API that are one call of ours: a row each, without code.
//
// The table is C++ and not a constant of a schema: nobody but this room reads it, and a change of
// it compiles one file. Every name in it is resolved against rpc/ when the table is made, so a name
// that is not there fails each start, and the test.
#pragma once

#include <kj/vector.h>

#include "apid/grpc/grpc-method.h"

namespace talos::edge {

struct Row {
  const char* path;
  Answer answer;
  const char* call;      // "machine.mounts": a method of Node, and one of what that gives
  const char* in = "";   // shapes (shape.h): of the call's parameters
  const char* out = "";  // of its results; of each of the list's elements if there is `items`
  // A stream: "write.bytes", the sink's method and its parameter, each element of which is a
  // message; of Data the message is `2: bytes`. "write.bytes~lines": a message for each line.
  // "images": elements of a list in the results.
  const char* items = "";
  bool conflictMeansExists = false;
};

kj::Own<const Method> methodOf(const Row& row);
kj::Vector<Entry> tableEntries();

}  // namespace talos::edge
