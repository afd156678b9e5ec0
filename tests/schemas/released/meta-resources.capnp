@0x963e8942dd6a08ce;
# Resources about the store itself: its namespaces and the definitions of all resource types.
# Field order is the order in which `get` prints keys and columns.

using Cxx = import "/capnp/c++.capnp";
$Cxx.namespace("talos::rpc");
using A = import "annotations.capnp";

struct NamespaceSpec $A.resource((type = "Namespaces.meta.cosi.dev", namespace = "meta", aliases = ["ns"])) {
  description @0 :Text $A.keepEmpty;
}
struct ResourceDefinitionSpec $A.resource((type = "ResourceDefinitions.meta.cosi.dev", namespace = "meta")) {
  type @0 :Text;
  displayType @1 :Text;
  aliases @2 :List(Text);
  printColumns @3 :List(PrintColumn);
  defaultNamespace @4 :Text;
  sensitive @5 :Bool;
  struct PrintColumn { name @0 :Text; jsonPath @1 :Text; }
}
