#include "apid/edge/methods.h"

#include "apid/edge/table.h"

namespace talos::edge {

kj::Vector<Entry> allMethods(const ResourceMessages& messages) {
  auto all = tableEntries();
  addByNamespace(all);
  addCosi(all, messages);
  addResourceService(all, messages);
  return all;
}

}  // namespace talos::edge
