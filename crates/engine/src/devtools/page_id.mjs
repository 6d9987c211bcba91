// Has the engine's tools take a call without `pageId` for one that means the selected page, as its code does already. The
// schema alone would refuse the call.

import { pathToFileURL } from "node:url";

const { pageIdSchema } = await import(pathToFileURL(process.env.GREENROOM_TOOLS));
if (!pageIdSchema?.pageId?.optional) throw new Error("greenroom does not know this version of the engine");
pageIdSchema.pageId = pageIdSchema.pageId.optional().describe("Targets a page by ID; the selected one if absent.");
