//! Answers as data, a page at a time: the first page comes from the call's own answer, every later one from a kept
//! result, without a browser.

use std::sync::Arc;

use greenroom_core::{Engine, Owner, RefId, Reply};
use serde_json::{Map, Value, json};
use tokio::sync::Semaphore;

use super::{
    Recall,
    pages::{self, PageError, PageQuery, cache::CachedResult},
};

/// How many queries run at a time. Each may take some hundred megabytes and a core for some seconds.
const QUERIES_MAX: usize = 2;
static QUERIES: Semaphore = Semaphore::const_new(QUERIES_MAX);

/// A page as text.
pub(crate) struct PageText {
    pub(crate) text: String,
    /// The record that it is a part of.
    pub(crate) ref_id: Option<RefId>,
}

/// A later page of an earlier answer, if the query has that answer's key.
pub(crate) fn next(recall: &Recall, owner: &Owner, query: &PageQuery) -> Result<Option<PageText>, PageError> {
    let Some(key) = &query.parameters.cache_key else { return Ok(None) };
    let cached = recall.pages.find(owner, key, &query.parameters)?;
    let limit = if query.parameters.limit.is_some() { query.limit } else { cached.limit };
    Ok(Some(render_page(&cached, key, query, limit)))
}

/// The first page of an answer; `None` if it contains no data. Runs on a blocking thread: a big answer takes some
/// ten milliseconds, and no other call must wait for that.
pub(crate) async fn first(
    recall: &Recall,
    engine: Arc<dyn Engine>,
    owner: &Owner,
    tool: &Arc<str>,
    reply: &Reply,
    ref_id: Option<&RefId>,
    query: &PageQuery,
) -> Result<Option<PageText>, PageError> {
    let Ok(result) = reply.body.clone() else { return Ok(None) };
    let snapshot = reply.snapshot_text().cloned();
    let name = tool.clone();
    let flatten = query.flatten;
    let expression = query.parameters.jmespath_query.clone();
    let _turn = QUERIES.acquire().await.map_err(|_| PageError::Failed)?;
    let prepared = tokio::task::spawn_blocking(move || {
        let data = engine.format().data(&name, result.get(), snapshot.as_deref())?;
        Some(pages::prepare(data, flatten, expression.as_deref()))
    });
    let prepared = prepared.await.map_err(|_| PageError::Failed)?;
    let Some(value) = prepared.transpose()? else { return Ok(None) };
    let cached = CachedResult {
        ref_id: ref_id.cloned(),
        flatten: query.flatten,
        jmespath_query: query.parameters.jmespath_query.clone(),
        limit: query.limit,
        value: Arc::new(value),
    };
    let key = recall.pages.keep(owner, cached.clone());
    Ok(Some(render_page(&cached, &key, query, query.limit)))
}

fn render_page(cached: &CachedResult, key: &str, query: &PageQuery, limit: usize) -> PageText {
    let page = pages::page(&cached.value, query.offset, limit);
    let mut fields = Map::new();
    fields.insert("cache_key".to_owned(), json!(key));
    fields.insert("total".to_owned(), json!(page.total));
    fields.insert("offset".to_owned(), json!(page.offset));
    fields.insert("count".to_owned(), json!(page.count()));
    if page.has_more {
        fields.insert("next_offset".to_owned(), json!(page.offset + page.count()));
    }
    if !query.silent_mode {
        fields.insert("items".to_owned(), page.value);
    }
    PageText { text: query.output_format.write(&Value::Object(fields)), ref_id: cached.ref_id.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::recall::pages::PageParameters;

    /// Later pages are as long as the first one, unless the caller sets another limit.
    #[test]
    fn later_pages_keep_the_first_limit() {
        let recall = Recall::none();
        let cached = CachedResult {
            ref_id: None,
            flatten: true,
            jmespath_query: None,
            limit: 3,
            value: Arc::new(json!([0, 1, 2, 3, 4, 5, 6, 7])),
        };
        let key = recall.pages.keep(&Owner::local(), cached);
        for (limit, count) in [(None, 3), (Some(2), 2)] {
            let parameters = PageParameters {
                cache_key: Some(key.clone()),
                offset: Some(3),
                limit,
                ..PageParameters::default()
            };
            let query = parameters.check().expect("it is right");
            let fields = next(&recall, &Owner::local(), &query).expect("it is kept").expect("it has a key");
            assert!(fields.text.contains(&format!("count: {count}")), "{}", fields.text);
        }
    }
}
