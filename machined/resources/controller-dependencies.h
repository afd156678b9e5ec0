// The resources that controllers and daemons read and write, as `talosctl inspect dependencies`
// draws them. Values only, without state.
#pragma once

#include <kj/string.h>
#include <kj/vector.h>

namespace talos::machined {

struct ControllerLinks {
  struct Input {
    kj::String ns, type, id;  // an empty id: all of the type
  };
  kj::String name;
  bool daemon = false;  // a separate process, known by its uid
  kj::Vector<Input> reads;
  kj::Vector<kj::String> writes;  // full names of types
};

}  // namespace talos::machined
