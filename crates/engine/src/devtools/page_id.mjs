// Makes `pageId` optional in the engine's tools: a call without it means the selected page, as the engine's code already
// assumes. Only the schema would refuse the call.

import { pathToFileURL } from "node:url";

const { pageIdSchema } = await import(pathToFileURL(process.env.GREENROOM_TOOLS));
if (!pageIdSchema?.pageId?.optional) throw new Error("greenroom does not know this version of the engine");
pageIdSchema.pageId = pageIdSchema.pageId.optional().describe("Targets a page by ID; the selected one if absent.");
