@0xcbb0a2e15f6d3b87;
# The client's configuration file (~/.talos/config): where clusters are and who the user is there.
# common/talosconfig/talosconfig.h reads, changes and writes it.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";

struct Talosconfig {
  context @0 :Text $A.keepEmpty;                # the current one
  contexts @1 :List(Entry) $A.map $A.keepEmpty;
  struct Entry { key @0 :Text; value @1 :Context; }

  struct Context {
    target @0 :Text;                            # an old spelling of one more endpoint; read, never written
    endpoints @1 :List(Text) $A.keepEmpty;
    nodes @2 :List(Text);
    ca @3 :Data $A.base64;                      # PEM
    crt @4 :Data $A.base64;                     # PEM
    key @5 :Data $A.base64 $A.secret;           # PEM
  }
}
